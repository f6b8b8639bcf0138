"""The page's content as one JSON object. Pure: the browser only draws it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from offsets_store.health import Verdict
from tubeclient._version import __version__
from tubeclient.names import group_name
from tubeclient_cli.common.printable import counted
from tubeclient_cli.dashboard.events import events_json
from tubeclient_cli.dashboard.facts import TABLE, BadRecordFacts, BrokerFacts, Facts, GroupFacts
from tubeclient_cli.dashboard.partitions import (
    PartitionState,
    map_json,
    partition_states,
    row_json,
    rows_behind,
    sums_json,
)
from tubeclient_cli.dashboard.series import rows_per_second, series_json
from tubeclient_cli.dashboard.verdict import GroupVerdict, judge_group

__all__ = ["check_shown_name", "dashboard_json", "partitions_json", "shown_name"]

WORST_PARTITIONS: Final = 50
_ON: Final = " on "
"""Between a group's name, which has no blanks, and its topics."""


def dashboard_json(facts: Facts, chosen: Collection[str] | None = None) -> dict[str, Any]:
    """The whole model. Each group has an overview; the groups named in `chosen` (see `shown_name`) have `details` too,
    by default all of them, and with an empty `chosen` the sickest."""
    groups = [] if facts.groups is None else [_Group(group, facts) for group in facts.groups]
    groups.sort(key=lambda group: (-group.verdict.verdict.severity, -(group.rows_behind or 0), group.name))
    names = {group.name for group in groups}
    shown = names if chosen is None else {*chosen} & names or {group.name for group in groups[:1]}
    return {
        "version": __version__,
        "now": facts.now_ms,
        "sources": [
            {"name": source.name, "place": source.place, "asOf": source.as_of_ms, "failure": source.failure}
            for source in facts.sources
        ],
        "headline": _headline(groups, facts),
        "groups": None if facts.groups is None else [group.overview() for group in groups],
        "details": {group.name: group.details() for group in groups if group.name in shown},
        "brokers": None if facts.cluster is None else [*map(_broker_json, facts.cluster.brokers)],
        "badRecords": None if facts.bad_records is None else _bad_records_json(facts.bad_records),
    }


def partitions_json(facts: Facts, group: str, text: str, most: int = WORST_PARTITIONS) -> dict[str, Any] | None:
    """The partitions of a group whose name (brokerId:topic:partitionId) has `text` in it, or that node:ID reads; worst
    first, at most `most`. None if there is no such group."""
    for some in facts.groups or ():
        if shown_name(some) == group:
            states = [state for state in partition_states(some, facts.cluster) if _matches(state, text.strip())]
            return {"found": len(states), "partitions": _worst(states, most)}
    return None


def shown_name(group: GroupFacts) -> str:
    """What the page calls one group and topic set."""
    return f"{group.progress.group.consumer_group}{_ON}{group.progress.group.topic_set}"


def check_shown_name(text: str) -> None:
    """ConfigurationError if no group can have this `shown_name`."""
    group_name(text.partition(_ON)[0])


class _Group:
    """One group with what is computed from its facts."""

    def __init__(self, group: GroupFacts, facts: Facts) -> None:
        self._group = group
        self._facts = facts
        self._states = partition_states(group, facts.cluster)
        self.name = shown_name(group)
        self.rows_behind = rows_behind(self._states)
        self.verdict: GroupVerdict = judge_group(group, self._states, facts)

    @property
    def is_idle(self) -> bool:
        """Whether messages wait and nobody reads, as far as the master knows."""
        return self._facts.cluster is not None and bool(self.rows_behind) and not self._members()

    def overview(self) -> dict[str, Any]:
        progress = self._group.progress
        rate = rows_per_second(self._group.commits, self._facts.now_ms)
        return {
            "name": self.name,
            "group": progress.group.consumer_group,
            "topicSet": progress.group.topic_set,
            "verdict": self.verdict.verdict,
            "sentence": self.verdict.sentence,
            "rowsBehind": self.rows_behind,
            "rowsPerSecond": None if rate is None else round(rate, 2),
            "partitions": len(self._states),
            "nodes": progress.source_count,
            "clients": None if self._facts.cluster is None else len(self._members()),
            "updatedAt": round(progress.updated_at.timestamp() * 1000),
            "runEpoch": progress.run_epoch,
            "sequence": progress.sequence,
            "clientVersion": progress.client_version,
        }

    def details(self) -> dict[str, Any]:
        hosts = {member.node_id: member.host for member in self._members() if member.node_id is not None}
        nodes = sums_json(self._states, lambda state: state.node_id)
        return {
            "series": series_json(self._group.commits, self._facts.now_ms, self._fresh_rows_behind()),
            "readsOn": self._group.reads_on,
            "events": events_json(self._group.commits),
            "topics": sums_json(self._states, lambda state: state.partition.topic),
            "brokers": sums_json(self._states, lambda state: state.partition.broker_id),
            "nodes": [{**node, "host": hosts.get(node["name"])} for node in nodes],
            "map": map_json(self._states),
            "worst": _worst(self._states, WORST_PARTITIONS),
        }

    def _fresh_rows_behind(self) -> int | None:
        """The lag of now; None if some of it is as of the last commit."""
        cluster = self._facts.cluster
        return None if cluster is None or any(state.silent for state in self._states) else self.rows_behind

    def _members(self) -> list[Any]:
        cluster = self._facts.cluster
        return [] if cluster is None else [*cluster.members.get(self._group.progress.group.consumer_group, ())]


def _headline(groups: list[_Group], facts: Facts) -> dict[str, str]:
    """The worst in one sentence, then the brokers that do not answer."""
    if facts.groups is None:
        failed = [source for source in facts.sources if source.failure is not None]
        text = f"{failed[0].name}: {failed[0].failure}" if failed else "The first look is under way."
        return {"verdict": Verdict.UNKNOWN, "text": text}
    if not groups and (failure := next((one.failure for one in facts.sources if one.name == TABLE), None)):
        return {"verdict": Verdict.UNKNOWN, "text": f"{TABLE}: {failure}"}
    if not groups:
        text = "The offsets table has no group yet. The first batch of a query with the option offsetsTable writes one."
        return {"verdict": Verdict.UNKNOWN, "text": text}
    verdict, sentence = groups[0].verdict
    sick = [group for group in groups if group.verdict.verdict.severity > Verdict.OK.severity]
    idle = [] if sick else [group for group in groups if group.is_idle]
    if verdict is Verdict.OK and len(groups) > 1:
        unjudged = sum(1 for group in groups if group.verdict.verdict is Verdict.UNKNOWN and group not in idle)
        well = sum(1 for group in groups if group.verdict.verdict is Verdict.OK and group not in idle)
        told = f"{idle[0].name}: {idle[0].verdict.sentence}. " if idle else ""
        told += f"{counted(well, 'group')} {'is' if well == 1 else 'are'} well"
        told += f", {unjudged:,} cannot be judged." if unjudged else "."
    else:
        more = f" {len(sick) - 1:,} more not well." if len(sick) > 1 else ""
        told = f"{groups[0].name}: {sentence}.{more}"
    silent = [] if facts.cluster is None else sorted(facts.cluster.silent)
    if silent:
        more = f" and {len(silent) - 1:,} more do" if len(silent) > 1 else " does"
        told += f" Broker {silent[0]}{more} not answer."
    if facts.table_at_ms < facts.now_ms:
        told = f"When the table could last be read: {told}"
    worst = Verdict.WARN if (silent or idle) and not sick else verdict
    return {"verdict": worst, "text": told}


def _worst(states: list[PartitionState], most: int) -> list[dict[str, Any]]:
    unknown = 1 << 62
    ordered = sorted(states, key=lambda s: (-(unknown if s.rows_behind is None else s.rows_behind), s.partition))
    return [row_json(state) for state in ordered[:most]]


def _matches(state: PartitionState, text: str) -> bool:
    if text.startswith("node:"):
        return str(state.node_id) == text.removeprefix("node:").strip()
    return text in str(state.partition)


def _broker_json(broker: BrokerFacts) -> dict[str, Any]:
    state = broker.state
    return {
        "id": state.info.broker_id,
        "address": state.info.address,
        "managed": str(state.manage_status),
        "runs": str(state.run_status),
        "answers": broker.failure is None and broker.answered_in_ms is not None,
        "answeredInMs": broker.answered_in_ms,
        "failure": broker.failure,
        "stores": broker.stores,
    }


def _bad_records_json(bad_records: BadRecordFacts) -> dict[str, Any]:
    return {
        "records": bad_records.records,
        "reasons": [
            {
                "group": reason.consumer_group,
                "state": reason.state,
                "reason": reason.reason,
                "records": reason.records,
                "newest": reason.newest_ms,
            }
            for reason in bad_records.reasons
        ],
    }
