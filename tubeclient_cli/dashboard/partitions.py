"""The partitions of a group as the page shows them: messages behind, nodes, sums, and a map of all. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any, Final, NamedTuple

from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, rows_behind_by_store
from tubeclient_cli.dashboard.facts import ClusterFacts, GroupFacts

__all__ = ["PartitionState", "map_json", "partition_states", "row_json", "rows_behind", "sums_json"]

_UNKNOWN_LEVEL: Final = "u"
_SILENT_LEVEL: Final = "s"


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
    expired: int
    """Upper bound of the unread rows that the broker no longer holds."""
    lost_rows: int
    """How many rows before the position the broker no longer has at its end."""
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
        for layout in cluster.layouts:
            if progress.group.covers(layout.topic):
                keys.update(layout.partitions())
    found = []
    for key in sorted(keys):
        row = rows.get(key)
        # Of a broker that answers, a store that is missing was never written to.
        held = StoreBounds(0, 0) if key.broker_id in answered else None
        bounds = None if cluster is None else cluster.ends.get(key.store, held)
        end = bounds.max_offset if bounds is not None else row.end_offset if row is not None else None
        at = None if row is None else row.next_offset
        first = 0 if bounds is None else bounds.min_offset
        begin = max(at or 0, first)
        found.append(
            PartitionState(
                key,
                at,
                end,
                None if end is None else max(0, end - begin) // INDEX_ENTRY_BYTES,
                None if row is None else row.node_id,
                None if row is None else row.reason,
                0 if at is None or at >= first else (first - at) // INDEX_ENTRY_BYTES,
                0 if at is None or bounds is None else max(0, at - bounds.max_offset) // INDEX_ENTRY_BYTES,
                key.broker_id in silent,
            )
        )
    return found


def rows_behind(states: Iterable[PartitionState]) -> int | None:
    """The most rows that are left in all of them. A store counts by its partition that is furthest behind. None if an
    end is unknown."""
    ends, begins = {}, {}
    for state in states:
        if state.end_offset is None or state.rows_behind is None:
            return None
        ends[state.partition] = state.end_offset
        begins[state.partition] = state.end_offset - state.rows_behind * INDEX_ENTRY_BYTES
    return sum(rows_behind_by_store(ends, begins).values())


def _shares(states: Sequence[PartitionState]) -> Mapping[PartitionState, int]:
    """What is left in a store, shared by its partitions as far as each is behind: nobody knows whose a message is."""
    found: dict[PartitionState, int] = {}
    for _, same_store in groupby(states, key=lambda state: state.partition.store):
        some = list(same_store)
        lags = [state.rows_behind or 0 for state in some]
        sums = [max(lags) * up_to // (sum(lags) or 1) for up_to in accumulate(lags, initial=0)]
        found.update(zip(some, (after - before for before, after in pairwise(sums)), strict=True))
    return found


def row_json(state: PartitionState) -> dict[str, Any]:
    """One partition for the table of partitions."""
    return {
        "partition": str(state.partition),
        "nextOffset": state.next_offset,
        "endOffset": state.end_offset,
        "rowsBehind": state.rows_behind,
        "nodeId": state.node_id,
        "reason": state.reason,
        "expired": state.expired,
        "brokerSilent": state.silent,
    }


def sums_json(
    states: Sequence[PartitionState], name_of: Callable[[PartitionState], str | int | None]
) -> list[dict[str, Any]]:
    """One entry for each topic, broker or node: its partitions and its messages behind, each counted once."""
    shares = _shares(states)
    parts: dict[str | int | None, list[PartitionState]] = {}
    for state in states:
        parts.setdefault(name_of(state), []).append(state)
    return [
        {
            "name": name,
            "partitions": len(some),
            "behind": sum(1 for state in some if state.rows_behind),
            "rowsBehind": None
            if any(state.rows_behind is None for state in some)
            else sum(shares[one] for one in some),
        }
        for name, some in sorted(parts.items(), key=lambda item: (item[0] is None, item[0]))
    ]


def map_json(states: Sequence[PartitionState]) -> dict[str, Any]:
    """All partitions in few bytes, in order.

    `runs`: [brokerId, topic, first partition id, how many] of neighbours. `levels`: one character for each partition:
    the number of digits of its messages behind (0 for none), u if unknown, s if its broker is silent. `nodes`: the node
    of each, -1 for none.
    """
    runs: list[list[Any]] = []
    for state in states:
        broker_id, topic, number = state.partition
        last = runs[-1] if runs else None
        if last is not None and last[:2] == [broker_id, topic] and last[2] + last[3] == number:
            last[3] += 1
        else:
            runs.append([broker_id, topic, number, 1])
    return {
        "runs": runs,
        "levels": "".join(map(_level, states)),
        "nodes": [-1 if state.node_id is None else state.node_id for state in states],
    }


def _level(state: PartitionState) -> str:
    if state.silent:
        return _SILENT_LEVEL
    if state.rows_behind is None:
        return _UNKNOWN_LEVEL
    return "0" if state.rows_behind == 0 else str(min(9, len(str(state.rows_behind))))
