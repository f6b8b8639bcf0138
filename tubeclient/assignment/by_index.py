"""Strategies that use only a partition's position in sorted order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tubeclient.assignment.hints import NO_HINTS, Assignment, Hints, goes_by
from tubeclient.keys import PartitionKey

__all__ = ["averagely", "averagely_by_circle", "modulo"]


@goes_by()
def modulo(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign the sorted partitions one by one: partition number i goes to node i % sourceCount.

    Sizes differ by at most one.
    """
    return [list(keys[node_id::source_count]) for node_id in range(source_count)]


averagely_by_circle = modulo
"""RocketMQ's AllocateMessageQueueAveragelyByCircle does the same."""


@goes_by()
def averagely(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Cut the sorted partitions into one run per node, as RocketMQ's AllocateMessageQueueAveragely does.

    Sizes differ by at most one, and the longer runs come first. With fewer partitions than nodes, the first nodes have
    one each.
    """
    size, longer = divmod(len(keys), source_count)
    cuts = [node * size + min(node, longer) for node in range(source_count + 1)]
    return [list(keys[start:end]) for start, end in pairwise(cuts)]
