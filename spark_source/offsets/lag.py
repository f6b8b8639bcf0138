"""How far a query is behind its topics, out of two lists of offsets. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreKey, rows_behind_by_store

__all__ = ["SourceLag"]


@dataclass(frozen=True, slots=True)
class SourceLag:
    """Rows that one source of a query has still to read.

    Exact per store, and so for the group, where all partitions of the store are read and nothing is filtered; at most
    so many else. For nodes and partitions it is an upper bound in any case: the partitions of a store share one index,
    which does not say how many of its messages are whose.
    """

    by_store: Mapping[StoreKey, int]
    at_most_by_node: Sequence[int] | None
    """By node id; None where it is not known which node has which partitions."""
    at_most_by_partition: Mapping[PartitionKey, int]

    @classmethod
    def between(
        cls, end: Offsets, latest: Offsets, by_node: Sequence[Sequence[PartitionKey]] | None = None
    ) -> SourceLag:
        """From `end`, where the last batch ended, to `latest`, where the topics did. A partition without an end has
        all to read; one that ended past `latest` nothing.

        `by_node` are the partitions of each node, by node id.
        """
        nodes = None
        if by_node is not None:
            nodes = tuple(
                sum(rows_behind_by_store({key: latest[key] for key in keys if key in latest}, end).values())
                for keys in by_node
            )
        return cls(
            rows_behind_by_store(latest, end),
            nodes,
            {key: max(0, at - end.get(key, 0)) // INDEX_ENTRY_BYTES for key, at in latest.items()},
        )

    @property
    def rows_behind(self) -> int:
        """Of the group: all stores together."""
        return sum(self.by_store.values())

    def metrics(self) -> dict[str, str]:
        """The same figures as Spark's Kafka source reports, by the same names and as text; of stores, in rows.

        Its partitions are what stores are here: the things that have offsets of their own.
        """
        rows = list(self.by_store.values()) or [0]
        return {
            "minOffsetsBehindLatest": str(min(rows)),
            "maxOffsetsBehindLatest": str(max(rows)),
            "avgOffsetsBehindLatest": str(sum(rows) / len(rows)),
        }
