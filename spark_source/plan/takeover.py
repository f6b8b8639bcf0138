"""Taking over a backlog: nodes with little to read take part of a long range of a node with much. Pure.

TubeMQ gives a partition to one reader of a group, so a partition that holds most of a backlog keeps one node busy while
the others wait. Ranges are read under reader groups, several of them, so a range can be cut and its pieces read by
several nodes at once. (RocketMQ hands single messages of a queue to whoever asks, its POP mode; in a batch of exact
ranges nothing has to be handed back, and a piece is in order.)

Everything follows from the nodes' ranges and options alone: a batch that is assigned the same is cut the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spark_source.plan.planning import PlainRange
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey

__all__ = ["TakenOver", "take_over"]


class TakenOver(NamedTuple):
    """A piece of a partition's range that another node reads than the one that has the partition."""

    partition: PartitionKey
    start: int
    """Index offset."""
    end: int
    owner: int
    """Node that has the partition."""
    reader: int
    """Node that reads the piece."""


def take_over(
    by_node: Mapping[int, Sequence[PlainRange]], node_count: int, *, min_rows: int, max_readers: int
) -> tuple[dict[int, Sequence[PlainRange]], list[TakenOver]]:
    """Return what each of the nodes 0 to `node_count` - 1 reads in the place of `by_node`, and what was taken over.

    A range of more than `min_rows` index entries is cut into up to `max_readers` pieces that neighbour each other, the
    first one its owner's, so that the nodes that read it have equally much to read, as far as that can be had: the
    longest range first, and by those who have the least. Pieces of less than `min_rows` / `max_readers` entries are not
    worth a reader. Nodes with nothing to read are left out.
    """
    loads = {node: sum(map(_entries, by_node.get(node, ()))) for node in range(node_count)}
    long = sorted(
        (-_entries(one), one, node)  # the longest first
        for node, of_node in by_node.items()
        for one in of_node
        if _entries(one) > min_rows
    )
    least = max(1, min_rows // max_readers)
    taken: list[TakenOver] = []
    for minus_entries, (partition, _, end), owner in long:
        shares = _shares(loads, owner, -minus_entries, max_readers - 1, least)
        at = end - sum(shares.values()) * INDEX_ENTRY_BYTES
        for reader, entries in shares.items():
            taken.append(TakenOver(partition, at, at + entries * INDEX_ENTRY_BYTES, owner, reader))
            at = taken[-1].end
            loads[reader] += entries
            loads[owner] -= entries
    if not taken:
        return dict(by_node), []
    return _moved(by_node, taken), sorted(taken)


def _entries(one: PlainRange) -> int:
    return (one[2] - one[1]) // INDEX_ENTRY_BYTES


def _shares(loads: Mapping[int, int], owner: int, entries: int, helpers: int, least: int) -> dict[int, int]:
    """How many of the `entries` of one range of `owner` others read, who have `loads` to read now."""
    idle = sorted((load, node) for node, load in loads.items() if node != owner)[:helpers]
    # With each helper more, the level that all come to is lower; one that stands above it would be given nothing.
    for count in range(len(idle), 0, -1):
        theirs = sum(load for load, _ in idle[:count])
        # What comes to the helpers alone is this range at most, whatever else the owner has.
        level = min((loads[owner] + theirs) // (count + 1), (entries + theirs) // count)
        shares = {node: level - load for load, node in idle[:count]}
        if min(shares.values()) >= least:
            return shares
    return {}


def _moved(by_node: Mapping[int, Sequence[PlainRange]], taken: Sequence[TakenOver]) -> dict[int, Sequence[PlainRange]]:
    cut_at: dict[PartitionKey, int] = {}
    for piece in taken:
        cut_at[piece.partition] = min(piece.start, cut_at.get(piece.partition, piece.start))
    assigned: dict[int, list[PlainRange]] = {}
    for node, of_node in by_node.items():
        kept = [(key, start, min(end, cut_at.get(key, end))) for key, start, end in of_node]
        assigned[node] = [one for one in kept if one[1] < one[2]]
    for piece in taken:
        assigned.setdefault(piece.reader, []).append((piece.partition, piece.start, piece.end))
    return {node: sorted(of_node) for node, of_node in sorted(assigned.items()) if of_node}
