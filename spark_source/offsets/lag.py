"""How far a query is behind its topics, from two sets of offsets. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_source.offsets.offsets import Offsets
from tubeclient.html_table import html_table
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreKey, rows_behind_by_store

__all__ = ["SourceLag"]


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The rows that one source of a query has still to read.

    Exact per store and for the group, if all partitions of each store are read without filters; otherwise an upper
    bound. For nodes and partitions always an upper bound: partitions of a store share one index, which does not say how
    many messages belong to which partition.
    """

    by_store: Mapping[StoreKey, int]
    at_most_by_node: Sequence[int] | None
    """By node id; None if it is unknown which node has which partitions."""
    at_most_by_partition: Mapping[PartitionKey, int]

    @classmethod
    def between(
        cls, end: Offsets, latest: Offsets, by_node: Sequence[Sequence[PartitionKey]] | None = None
    ) -> SourceLag:
        """From `end`, where the last batch ended, to `latest`, where the topics ended. A partition without an end has
        everything to read; one past `latest` nothing.

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
        """Of the group: the sum over all stores."""
        return sum(self.by_store.values())

    def _repr_html_(self) -> str:
        """For notebooks: the rows of each store, the most first."""
        rows = sorted(self.by_store.items(), key=lambda item: (-item[1], item[0]))
        title = f"{self.rows_behind:,} messages behind"
        return html_table(title, ("store", "messages behind"), rows, count=len(rows))

    def metrics(self) -> dict[str, str]:
        """The same figures as Spark's Kafka source reports, with the same names and as text; of stores, in rows.

        Kafka's partitions correspond to stores here: both have their own offsets.
        """
        rows = list(self.by_store.values()) or [0]
        return {
            "minOffsetsBehindLatest": str(min(rows)),
            "maxOffsetsBehindLatest": str(max(rows)),
            "avgOffsetsBehindLatest": str(sum(rows) / len(rows)),
        }
