"""The page's content as one JSON object. Pure: the browser only draws it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

from offsets_store.health import GroupHealth, PartitionHealth, Unread, Verdict, judge
from tubeclient._version import __version__
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, rows_behind
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import spans
from tubeclient_cli.dashboard.looking import BrokerFacts, ClusterFacts, Commits, Facts, GroupFacts

__all__ = ["dashboard_json", "partition_states", "series_json"]

_WORST_PARTITIONS: Final = 50
_RATE_WINDOW_MS: Final = 300_000
"""Messages per second are the mean of so long."""


class PartitionState(NamedTuple):
    """One partition now. Offsets are index offsets; None if unknown."""

    partition: PartitionKey
    next_offset: int | None
    """None: the group has read nothing of it yet."""
    end_offset: int | None
    rows_behind: int | None
    """Upper bound."""
    node_id: int | None
    reason: str | None
    lost_rows: int
    """How many rows before the position the broker no longer has at its end."""
    expired: int
    """Upper bound of the unread rows that the broker no longer holds."""
    silent: bool
    """The broker does not answer; the end is that of the group's last commit."""


def partition_states(group: GroupFacts, cluster: ClusterFacts | None) -> list[PartitionState]:
    """Each partition of the table, also without a position yet, and, of the group's topics, each of the cluster;
    sorted."""
    progress = group.progress
    rows = {row.partition: row for row in progress.partitions}
    keys = {*rows, *(() if group.past is None else group.past.positions)}
    silent: frozenset[int] = frozenset()
    answered: set[int] = set()
    if cluster is not None:
        silent = cluster.silent
        answered = {broker.state.info.broker_id for broker in cluster.brokers if broker.answered_in_ms is not None}
        keys.update(
            key for layout in cluster.layouts if progress.group.covers(layout.topic) for key in layout.partitions()
        )
    found = []
    for key in sorted(keys):
        row = rows.get(key)
        # Of a broker that answers, a store that is missing was never written to.
        held = StoreBounds(0, 0) if key.broker_id in answered else None
        bounds = None if cluster is None else cluster.ends.get(key.store, held)
        end = bounds.max_offset if bounds is not None else row.end_offset if row is not None else None
        at = None if row is None else row.next_offset
        first = 0 if bounds is None else bounds.min_offset
        found.append(
            PartitionState(
                key,
                at,
                end,
                None if end is None else max(0, end - max(at or 0, first)) // INDEX_ENTRY_BYTES,
                None if row is None else row.node_id,
                None if row is None else row.reason,
                0 if at is None or bounds is None else max(0, at - bounds.max_offset) // INDEX_ENTRY_BYTES,
                0 if at is None else max(0, first - at) // INDEX_ENTRY_BYTES,
                key.broker_id in silent,
            )
        )
    return found


def series_json(commits: Commits) -> dict[str, list[Any]]:
    """`at` (ms since 1970, ascending), and at each commit `rowsBehind` and, but for the first, `rowsPerSecond`."""
    reads = _reads(commits)
    behind = []
    positions: dict[PartitionKey, int] = {}
    ends: dict[PartitionKey, int] = {}
    for at_ms, _ in reads:
        positions |= {partition: one.next_offset for partition, one in commits[at_ms].items()}
        ends |= {key: one.end_offset for key, one in commits[at_ms].items() if one.end_offset is not None}
        behind.append(rows_behind(ends, positions))
    rates = [round(rows * 1000 / max(1, at - before), 2) for (before, _), (at, rows) in pairwise(reads)]
    return {"at": [at for at, _ in reads], "rowsBehind": behind, "rowsPerSecond": [None, *rates][: len(reads)]}


def _reads(commits: Commits) -> list[tuple[int, int]]:
    """The time of each commit, ascending, and the most rows that were read since the one before."""
    found = []
    positions: dict[PartitionKey, int] = {}
    for at_ms in sorted(commits):
        moved = {key: one.next_offset for key, one in commits[at_ms].items()}
        found.append((at_ms, rows_behind({key: at for key, at in moved.items() if key in positions}, positions)))
        positions |= moved
    return found


class _Group:
    """One group with what is computed from its facts."""

    def __init__(self, group: GroupFacts, facts: Facts) -> None:
        progress = group.progress
        self.name = f"{progress.group.consumer_group} on {progress.group.topic_set}"
        self._group, self._facts = group, facts
        self._states = partition_states(group, facts.cluster)
        self.rows_behind = _rows_behind(self._states)
        self._health = None if group.past is None else self._judged()
        self.verdict = Verdict.UNKNOWN if self._health is None else self._health.verdict
        self.sentence = (
            "the group's newest run reads other topics" if self._health is None else self._sentence(self._health)
        )

    def overview(self) -> dict[str, Any]:
        progress = self._group.progress
        return {
            "name": self.name,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "rowsBehind": self.rows_behind,
            "rowsPerSecond": self._rows_per_second(),
            "partitions": len(self._states),
            "nodes": progress.source_count,
            "clients": None if self._facts.cluster is None else len(self._members()),
            "updatedAt": round(progress.updated_at.timestamp() * 1000),
            "runEpoch": progress.run_epoch,
        }

    def details(self) -> dict[str, Any]:
        hosts = {member.node_id: member.host for member in self._members() if member.node_id is not None}
        nodes: dict[int | None, list[PartitionKey]] = {}
        for state in self._states:
            nodes.setdefault(state.node_id, []).append(state.partition)
        unknown = 1 << 62
        worst = sorted(
            self._states, key=lambda one: (-(unknown if one.rows_behind is None else one.rows_behind), one.partition)
        )
        return {
            "name": self.name,
            "series": series_json(self._group.commits),
            "nodes": [
                {"node": node, "host": hosts.get(node), "partitions": len(keys), "which": ", ".join(spans(keys))}
                for node, keys in sorted(nodes.items(), key=lambda item: (item[0] is None, item[0]))
            ],
            "worst": [_row_json(state) for state in worst[:_WORST_PARTITIONS]],
        }

    def _judged(self) -> GroupHealth:
        """By its last commits and what is left to read: as of now, or without the cluster as of its last commit."""
        assert self._group.past is not None
        now = datetime.fromtimestamp(self._facts.groups_at_ms / 1000, UTC)
        name, seen = self._group.progress.group.consumer_group, self._group.past.positions
        judged = []
        for state in self._states:
            unread = None
            if state.rows_behind is not None and not state.silent:
                since = self._facts.waits.get((name, state.partition, state.next_offset or 0))
                came = None if since is None else datetime.fromtimestamp(since / 1000, UTC)
                unread = Unread(state.rows_behind, came, state.lost_rows)
            judged.append(judge(state.partition, seen.get(state.partition, ()), unread, now))
        return GroupHealth.of(judged)

    def _sentence(self, health: GroupHealth) -> str:
        """Why it has its verdict, by the partition that is furthest behind; without a full stop."""
        worst = [one for one in health.partitions if one.verdict is health.verdict]
        if health.verdict is Verdict.OK and not any(one.rows_behind for one in worst):
            return "nothing to read" if self._facts.cluster else "nothing was left to read at its last commit"
        furthest: PartitionHealth = max(worst, key=lambda one: one.rows_behind or 0)
        text = f"{furthest.partition}: {furthest.why}"
        if len(health.partitions) > 1:
            text = f"{len(worst):,} of {len(health.partitions):,} partitions, such as {text}"
        if self._facts.cluster is not None and not self._members() and furthest.rows_behind:
            text += "; the master knows no client of the group"
        return text

    def _rows_per_second(self) -> float | None:
        """The mean of the last five minutes, or of the time since the second newest commit if that is longer."""
        reads = _reads(self._group.commits)
        if len(reads) < 2:
            return None
        since = max(reads[0][0], self._facts.now_ms - _RATE_WINDOW_MS)
        rows = 0.0
        for (before, _), (at, read) in pairwise(reads):
            # A commit's rows came evenly since the commit before.
            rows += read * max(0, at - max(since, before)) / max(1, at - before)
        return round(rows * 1000 / max(1, self._facts.now_ms - since), 2)

    def _members(self) -> Sequence[Any]:
        cluster = self._facts.cluster
        return () if cluster is None else cluster.members.get(self._group.progress.group.consumer_group, ())


def dashboard_json(facts: Facts, chosen: str | None = None) -> dict[str, Any]:
    """The whole model: an overview of each group, the worst first, and the details of `chosen`, or else of the first.
    `asOf` is when it was looked up."""
    groups = [_Group(group, facts) for group in facts.groups or ()]
    groups.sort(key=lambda group: (-group.verdict.severity, -(group.rows_behind or 0), group.name))
    shown = next((group for group in groups if group.name == chosen), groups[0] if groups else None)
    return {
        "version": __version__,
        "asOf": facts.now_ms,
        "failures": [failure._asdict() for failure in facts.failures],
        "headline": _headline(groups, facts),
        "groups": None if facts.groups is None else [group.overview() for group in groups],
        "details": None if shown is None else shown.details(),
        "brokers": None if facts.cluster is None else [*map(_broker_json, facts.cluster.brokers)],
    }


def _headline(groups: Sequence[_Group], facts: Facts) -> dict[str, str]:
    """The worst in one sentence, then the brokers that do not answer."""
    if not groups:
        text = "The first look is under way." if facts.groups is None else "The offsets table has no group yet."
        return {"verdict": Verdict.UNKNOWN, "text": facts.failures[0].failure if facts.failures else text}
    verdict = groups[0].verdict
    sick = sum(group.verdict.severity > Verdict.OK.severity for group in groups)
    if sick or len(groups) == 1:
        text = f"{groups[0].name}: {groups[0].sentence}." + (f" {sick - 1:,} more not well." if sick > 1 else "")
    else:
        well = sum(group.verdict is Verdict.OK for group in groups)
        text = f"{counted(well, 'group')} {'is' if well == 1 else 'are'} well"
        text += f", {len(groups) - well:,} cannot be judged." if well < len(groups) else "."
    if facts.groups_at_ms < facts.now_ms:
        text = f"When the table could last be read: {text}"
    silent = [] if facts.cluster is None else sorted(facts.cluster.silent)
    if silent:
        text += f" Not answering: broker {', '.join(map(str, silent))}."
        verdict = verdict if sick else Verdict.WARN
    return {"verdict": verdict, "text": text}


def _rows_behind(states: Iterable[PartitionState]) -> int | None:
    """The most rows that are left in all of them. A store counts by its partition that is furthest behind. None if an
    end is unknown."""
    ends, begins = {}, {}
    for state in states:
        if state.end_offset is None or state.rows_behind is None:
            return None
        ends[state.partition] = state.end_offset
        begins[state.partition] = state.end_offset - state.rows_behind * INDEX_ENTRY_BYTES
    return rows_behind(ends, begins)


def _row_json(state: PartitionState) -> dict[str, Any]:
    notes = ["its broker does not answer: as of the last commit"] if state.silent else []
    notes += [f"{state.expired:,} unread messages expired"] if state.expired else []
    notes += ["nothing read yet"] if state.next_offset is None else []
    notes += [state.reason] if state.reason else []
    return {
        "partition": str(state.partition),
        "rowsBehind": state.rows_behind,
        "node": state.node_id,
        "nextOffset": state.next_offset,
        "endOffset": state.end_offset,
        "note": "; ".join(notes),
    }


def _broker_json(broker: BrokerFacts) -> dict[str, Any]:
    state = broker.state
    return {
        "id": state.info.broker_id,
        "address": state.info.address,
        "says": f"{state.run_status}, {state.manage_status}",
        "answeredInMs": broker.answered_in_ms,
        "failure": broker.failure,
    }
