"""The verdict on a group with its reason in one sentence. Pure; `offsets_store.health` judges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from offsets_store.health import GroupHealth, PartitionHealth, Unread, Verdict, judge
from tubeclient_cli.dashboard.facts import ClusterFacts, Facts, GroupFacts
from tubeclient_cli.dashboard.partitions import PartitionState

__all__ = ["GroupVerdict", "judge_group"]


class GroupVerdict(NamedTuple):
    """`sentence` has no full stop."""

    verdict: Verdict
    sentence: str


def judge_group(group: GroupFacts, states: Sequence[PartitionState], facts: Facts) -> GroupVerdict:
    """Judge one group of `facts` by its last commits and what is left to read: as of now, or without the cluster as of
    its last commit."""
    if group.past is None:
        return GroupVerdict(Verdict.UNKNOWN, "the group's newest run reads other topics")
    now = datetime.fromtimestamp(facts.table_at_ms / 1000, UTC)
    name, cluster = group.progress.group.consumer_group, facts.cluster
    seen = group.past.positions
    health = GroupHealth.of(
        judge(
            state.partition,
            seen.get(state.partition, ()),
            None
            if state.rows_behind is None or state.silent
            else Unread(
                state.rows_behind,
                None if since is None else datetime.fromtimestamp(since / 1000, UTC),
                state.lost_rows,
            ),
            now,
        )
        for state in states
        for since in [facts.waits.get((name, state.partition, state.next_offset or 0))]
    )
    verdict = health.verdict
    return GroupVerdict(verdict, _sentence(group, verdict, health.partitions, cluster))


def _sentence(
    group: GroupFacts, verdict: Verdict, partitions: Sequence[PartitionHealth], cluster: ClusterFacts | None
) -> str:
    worst = [one for one in partitions if one.verdict is verdict]
    if verdict is Verdict.OK:
        worst = [one for one in worst if one.rows_behind]
        if not worst:
            return "nothing to read" if cluster is not None else "nothing was left to read at its last commit"
    clients = ""
    count = None if cluster is None else len(cluster.members.get(group.progress.group.consumer_group, ()))
    if count == 0 and any(one.rows_behind for one in worst):
        clients = "; the master knows no client of the group"
    elif verdict is Verdict.STOP and count is not None:
        clients = f"; clients at the master: {count:,}"
    return _of(worst, partitions) + _example(worst) + clients


def _of(some: Sequence[PartitionHealth], all_of_them: Sequence[PartitionHealth]) -> str:
    if len(all_of_them) == 1:
        return ""
    return f"{len(some):,} of {len(all_of_them):,} partitions, such as "


def _example(some: Sequence[PartitionHealth]) -> str:
    """The one that is furthest behind."""
    furthest = max(some, key=lambda one: one.rows_behind or 0, default=None)
    return "" if furthest is None else f"{furthest.partition}: {furthest.why}"
