"""Batch reads with `readPositions`: a row for each partition, with what its broker has and where the group is."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from spark_source.boundary import as_one_line
from spark_source.read.schema import OF_PARTITIONS
from tubeclient.errors import ConnectError, TransportError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey

if TYPE_CHECKING:
    from spark_source.cluster.cluster import TubeCluster
    from spark_source.options.source_options import SourceOptions
    from spark_source.progress.progress_table import ProgressTable

Row: TypeAlias = tuple[str | int | None, ...]

POSITIONS: Final = (
    StructType()
    .add("topic", StringType())
    .add("partitionKey", StringType())
    .add("brokerId", IntegerType())
    .add("partition", IntegerType())
    .add("storeId", IntegerType())
    .add("earliestOffset", LongType())
    .add("latestOffset", LongType())
    .add("groupOffset", LongType())
    .add("messagesBehindAtMost", LongType())
)
"""The rows' schema. The offsets are those at which a read would begin by `startingOffsets` of that name;
`messagesBehindAtMost` is what `tubeclient offsets show` has by this name."""


class PositionsReader(DataSourceReader):
    """Asks once, when Spark plans the read: tasks get the rows, and need no access to anything. Registers nothing under
    the user's group."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        """For the task."""
        return {}

    @as_one_line()
    def partitions(self) -> Sequence[InputPartition]:
        from spark_source.cluster.cluster import TubeCluster
        from spark_source.progress.progress_table import ProgressTable

        with contextlib.closing(ProgressTable(self._options)) as progress:
            return [InputPartition(positions_now(self._options, TubeCluster(self._options), progress))]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        return iter(partition.value)


def positions_now(options: SourceOptions, cluster: TubeCluster, progress: ProgressTable) -> list[Row]:
    """The rows of all partitions that `options` read, sorted by partition.

    ConfigurationError: a topic or partition is not there. OffsetsTableError: the table does not answer. ConnectError: a
    broker does not, and none is left out; or, if brokers must say where the group is, the masters' web port does not.
    """
    from spark_source.stream.batch_reader import bounds_of_all, layout_of, no_answer
    from spark_source.stream.beginning import OffsetFinder

    layout = layout_of(options, cluster)
    with contextlib.closing(cluster.lookup()) as lookup:
        # Before the ends: a group that goes on meanwhile is not past them.
        try:
            positions = OffsetFinder(lookup, options, progress).group_positions(layout.view_read)
        except ConnectError:
            raise  # it names the web port
        except TransportError as error:
            raise no_answer(error) from error
        bounds = bounds_of_all(lookup, layout.view_read)
    return rows_of(layout.configured, bounds, positions)


def rows_of(
    partitions: Collection[PartitionKey],
    bounds: Mapping[StoreKey, StoreBounds],
    positions: Mapping[PartitionKey, int],
) -> list[Row]:
    """A row for each of `partitions`, sorted; `positions` are the group's, of some of them and maybe of others."""
    return [
        (
            *(value_of(key) for value_of in OF_PARTITIONS.values()),
            key.store.store_id,
            *bounds[key.store],
            positions.get(key),
            bounds[key.store].rows_behind(positions.get(key)),
        )
        for key in sorted(partitions)
    ]
