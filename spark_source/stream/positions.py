"""`option("read", "positions")`: one row for each partition, with its ends and where the group stands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from spark_source.boundary import as_one_line
from spark_source.options.source_options import SourceOptions
from spark_source.sent import SentToTasks
from tubeclient.keys import INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    from spark_source.cluster.cluster import Cluster
    from spark_source.progress.progress_table import ProgressTable

__all__ = ["POSITIONS", "PositionsReader", "look"]

POSITIONS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partitionKey", StringType()),
        StructField("brokerId", IntegerType()),
        StructField("partition", IntegerType()),
        StructField("storeId", IntegerType()),
        StructField("beginOffset", LongType()),
        StructField("endOffset", LongType()),
        StructField("groupOffset", LongType()),
        StructField("lag", LongType()),
        StructField("failure", StringType()),
    ]
)
"""The columns of the rows; docs/spark-source.md says what they mean."""


@dataclass(frozen=True)
class _Rows(InputPartition):
    """What the planner saw: the tasks ask nobody."""

    rows: Sequence[tuple[Any, ...]]


class PositionsReader(SentToTasks, DataSourceReader):
    """Looks once, when Spark plans the read. Registers nothing under the user's group."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        """For the task, which needs no options."""
        return {}

    @as_one_line()
    def partitions(self) -> Sequence[InputPartition]:
        from spark_source.cluster.cluster import TubeCluster
        from spark_source.options.access import client_settings
        from spark_source.progress.progress_table import ProgressTable

        cluster = TubeCluster(client_settings(self._options), self._options)
        with contextlib.closing(ProgressTable(self._options)) as progress:
            return [_Rows(look(self._options, cluster, progress))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        # Spark turns an empty list of partitions into one empty partition.
        return iter(partition.rows if isinstance(partition, _Rows) else ())


def look(options: SourceOptions, cluster: Cluster, progress: ProgressTable) -> list[tuple[Any, ...]]:
    """The rows, sorted by partition. The group stands where the offsets table has it, otherwise where its broker does.

    A broker that does not answer leaves its partitions without ends; `failure` says why. Raises TubeError if no master
    answers, or if the master's web port, which brokers' positions need, does not; OffsetsTableError; and
    ConfigurationError for topics or partitions that are not there.
    """
    from spark_source.cluster.cluster import check_scope
    from spark_source.stream.snapshot import Layout

    view = cluster.fetch_view()
    check_scope(options, view)
    layout = Layout(options.selector(), view)
    kept = progress.positions({key.topic for key in layout.configured})
    with contextlib.closing(cluster.lookup()) as lookup:
        bounds, silent, _ = lookup.look(layout.view_read)
        answering = layout.view_read.without(silent.keys())
        on_brokers = lookup.group_positions(answering, options.consumer_group)
    rows = []
    for key in sorted(layout.configured):
        held = bounds.get(key.store)
        at = kept.get(key, on_brokers.get(key))
        lag = None if held is None else (held.max_offset - held.nearest(at or 0)) // INDEX_ENTRY_BYTES
        ends = (None, None) if held is None else (held.min_offset, held.max_offset)
        failure = None if held is not None else str(silent[key.broker_id])
        rows.append((key.topic, str(key), key.broker_id, key.partition_id, key.store.store_id, *ends, at, lag, failure))
    return rows
