"""Backlog takeover: nodes with little to read take part of a long range of a busy node. Pure.

TubeMQ gives a partition to one reader of a group, so a partition with most of a backlog would keep one node busy while
the others wait. Ranges are read in several reader groups, so a range can be cut, and two nodes can read its parts in
parallel. (RocketMQ's POP mode instead gives single messages of a queue to any reader. Exact ranges need no return of
messages, and each part is in order.)

The result depends only on the nodes' ranges and options: the same assignment is cut in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange

__all__ = ["TakenOver", "take_over"]


class TakenOver(NamedTuple):
    """A part of a range that another node than the partition's owner reads."""

    part: OffsetRange
    owner: int
    """The partition's node."""
    reader: int
    """The node that reads the part."""


def take_over(
    by_node: Mapping[int, Sequence[OffsetRange]], node_count: int, min_rows: int
) -> tuple[dict[int, Sequence[OffsetRange]], list[TakenOver]]:
    """Return what each of the nodes 0 to `node_count` - 1 reads instead of `by_node`, and what was taken over.

    The end of a range of more than `min_rows` index entries may go to another node; the rest stays with its owner. The
    sizes level the nodes' loads as far as possible: longest range first, least busy node first. Parts of less than half
    of `min_rows` are not worth a reader. Nodes with nothing to read are left out.
    """
    loads = {node: sum(one.max_messages for one in by_node.get(node, ())) for node in range(node_count)}
    long = sorted(
        (-one.max_messages, one, node)  # longest first
        for node, of_node in by_node.items()
        for one in of_node
        if one.max_messages > min_rows
    )
    moved: dict[int, list[OffsetRange]] = {node: list(of_node) for node, of_node in by_node.items()}
    taken: list[TakenOver] = []
    for minus_entries, whole, owner in long if node_count > 1 else ():
        load, reader = min((load, node) for node, load in loads.items() if node != owner)
        entries = min((loads[owner] - load) // 2, -minus_entries)
        if entries < max(1, min_rows // 2):
            continue
        cut_at = whole.end - entries * INDEX_ENTRY_BYTES
        part = whole._replace(start=cut_at)
        taken.append(TakenOver(part, owner, reader))
        moved[owner].remove(whole)
        moved[owner] += [whole._replace(end=cut_at)] if whole.start < cut_at else []
        moved.setdefault(reader, []).append(part)
        loads[reader] += entries
        loads[owner] -= entries
    return {node: sorted(of_node) for node, of_node in sorted(moved.items()) if of_node}, sorted(taken)
