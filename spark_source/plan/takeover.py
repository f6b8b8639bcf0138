"""Backlog takeover: nodes with little to read take part of a long range of a busy node. Pure.

TubeMQ gives a partition to one reader of a group, so a partition with most of a backlog would keep one node busy while
the others wait. Ranges are read in several reader groups, so a range can be cut, and several nodes can read its parts
in parallel. (RocketMQ's POP mode instead gives single messages of a queue to any reader. Exact ranges need no return of
messages, and each part is in order.)

The result depends only on the nodes' ranges and options: the same assignment is cut in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spark_source.options.node_options import Takeover
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey

__all__ = ["TakenOver", "take_over"]


class TakenOver(NamedTuple):
    """A part of a range that another node than the partition's owner reads."""

    part: OffsetRange
    owner: int
    """The partition's node."""
    reader: int
    """The node that reads the part."""


def take_over(
    by_node: Mapping[int, Sequence[OffsetRange]], node_count: int, takeover: Takeover
) -> tuple[dict[int, Sequence[OffsetRange]], list[TakenOver]]:
    """Return what each of the nodes 0 to `node_count` - 1 reads instead of `by_node`, and what was taken over.

    A range of more than `min_rows` index entries is cut into up to `max_readers` adjacent parts; the first stays with
    its owner. The sizes level the nodes' loads as far as possible: longest range first, least busy nodes first. Parts
    of less than `min_rows` / `max_readers` entries are not worth a reader. Nodes with nothing to read are left out.
    """
    min_rows, max_readers = takeover
    loads = {node: sum(one.max_messages for one in by_node.get(node, ())) for node in range(node_count)}
    long = sorted(
        (-one.max_messages, one, node)  # longest first
        for node, of_node in by_node.items()
        for one in of_node
        if one.max_messages > min_rows
    )
    least = max(1, min_rows // max_readers)
    taken: list[TakenOver] = []
    for minus_entries, (partition, _, end), owner in long:
        shares = _shares(loads, owner, -minus_entries, max_readers - 1, least)
        at = end - sum(shares.values()) * INDEX_ENTRY_BYTES
        for reader, entries in shares.items():
            until = at + entries * INDEX_ENTRY_BYTES
            taken.append(TakenOver(OffsetRange(partition, at, until), owner, reader))
            at = until
            loads[reader] += entries
            loads[owner] -= entries
    if not taken:
        return dict(by_node), []
    return _moved(by_node, taken), sorted(taken)


def _shares(loads: Mapping[int, int], owner: int, entries: int, helpers: int, least: int) -> dict[int, int]:
    """How many of the `entries` of one range of `owner` each helper reads; `loads` are the nodes' current entries."""
    idle = sorted((load, node) for node, load in loads.items() if node != owner)[:helpers]
    # Each further helper lowers the common level. A node above the level would get nothing.
    for count in range(len(idle), 0, -1):
        theirs = sum(load for load, _ in idle[:count])
        # The helpers get at most this range, however loaded the owner is.
        level = min((loads[owner] + theirs) // (count + 1), (entries + theirs) // count)
        shares = {node: level - load for load, node in idle[:count]}
        if min(shares.values()) >= least:
            return shares
    return {}


def _moved(
    by_node: Mapping[int, Sequence[OffsetRange]], taken: Sequence[TakenOver]
) -> dict[int, Sequence[OffsetRange]]:
    cut_at: dict[PartitionKey, int] = {}
    for one in taken:
        cut_at[one.part.partition] = min(one.part.start, cut_at.get(one.part.partition, one.part.start))
    assigned: dict[int, list[OffsetRange]] = {}
    for node, of_node in by_node.items():
        kept = [one._replace(end=cut_at[one.partition]) if one.partition in cut_at else one for one in of_node]
        assigned[node] = [one for one in kept if one.start < one.end]
    for part, _, reader in taken:
        assigned.setdefault(reader, []).append(part)
    return {node: sorted(of_node) for node, of_node in sorted(assigned.items()) if of_node}
