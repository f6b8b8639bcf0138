"""Batch reads: everything between two sets of offsets, planned once. Registers nothing under the user's group."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_source.boundary import as_one_line, one_line_errors
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.read.task_read import read_task
from tubeclient.errors import ConfigurationError, ConnectError, TransportError

if TYPE_CHECKING:
    import pyarrow

    from spark_source.cluster.cluster import TubeCluster
    from spark_source.offsets.offsets import Offsets
    from spark_source.progress.progress_table import ProgressTable
    from spark_source.stream.snapshot import Layout
    from tubeclient.keys import StoreBounds, StoreKey
    from tubeclient.metadata import ClusterView
    from tubeclient.positions.offset_lookup import OffsetLookup

_log = logging.getLogger(__name__)


class TubeBatchReader(DataSourceReader):
    """One read of exact ranges. Opens nothing until Spark asks for partitions."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        """For the tasks, which need no access to the offsets table."""
        return {"_options": self._options.for_tasks()}

    @as_one_line()
    def partitions(self) -> Sequence[InputPartition]:
        from spark_source.cluster.cluster import TubeCluster
        from spark_source.progress.progress_table import ProgressTable

        with contextlib.closing(ProgressTable(self._options)) as progress:
            return plan_batch(self._options, TubeCluster(self._options), progress)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        # Spark turns an empty list of partitions into one empty partition.
        return one_line_errors(read_task(self._options, partition)) if isinstance(partition, ReadTask) else iter(())


def plan_batch(options: SourceOptions, cluster: TubeCluster, progress: ProgressTable) -> list[ReadTask]:
    """Return the tasks of a batch read, for the cluster as it is now.

    DataLoss: the start is outside of the brokers' data, and `failOnDataLoss` says so. ConfigurationError: the end is,
    whatever it says, or is before the start. ConnectError: a broker does not answer for `retryLimit`; no broker is
    left out.
    """
    from spark_source.cluster.cluster import default_node_count
    from spark_source.plan.batch_plan import BatchPlan, PartitionAssignment
    from spark_source.plan.planning import entries_by_partition
    from spark_source.plan.read_task import tasks_of

    layout = layout_of(options, cluster)
    lookup = cluster.lookup()
    try:
        start, end = _start_and_end(options, layout, lookup, progress)
    finally:
        lookup.close()
    assigned = PartitionAssignment.of(
        options.assignment_strategy,
        list(layout.configured),
        options.source_count or default_node_count(len(layout.configured), options.readers_per_partition),
        replace(options.assignment_hints, previous={}, lag=entries_by_partition(start, end)),
    )
    plan = BatchPlan.of(start, end, assigned, options.takeover)
    _log.info("batch read planned: %s", plan)
    return tasks_of(plan, layout.view, options)


def layout_of(options: SourceOptions, cluster: TubeCluster) -> Layout:
    """What a read has of the cluster as it is now. ConfigurationError for a topic or partition that is not there,
    TubeError if no master answers."""
    from spark_source.cluster.cluster import check_scope
    from spark_source.stream.snapshot import Layout

    view = cluster.fetch_view()
    check_scope(options, view)
    layout = Layout(options.selector(), view)
    if not layout.configured:
        _log.warning("no topic matches subscribePattern; nothing is read")
    return layout


def _start_and_end(
    options: SourceOptions, layout: Layout, lookup: OffsetLookup, progress: ProgressTable
) -> tuple[Offsets, Offsets]:
    from spark_source.plan.losses import find_lost
    from spark_source.stream.beginning import OffsetFinder, beginning
    from spark_source.stream.loss_judge import loss_error

    bounds = bounds_of_all(lookup, layout.view_read)
    finder = OffsetFinder(lookup, options, progress)
    start = beginning(options.start_of("batch"), layout, bounds, finder, waits=False)
    lost = find_lost(start, bounds)
    if lost:
        # A loss counts only if a second look confirms it.
        suspected = {loss.identity for loss in lost}
        bounds = bounds_of_all(lookup, layout.view_read)
        lost = [loss for loss in find_lost(start, bounds) if loss.identity in suspected]
    end = finder.find(options.end, layout.configured, layout.view_read, bounds)
    for loss in find_lost(end, bounds):
        raise ConfigurationError(
            f"endingOffsets {loss.position} of partition {loss.partition} is outside its broker's data, {{}} to "
            "{}; name an offset in that range, or latest".format(*bounds[loss.partition.store]),
            condition="INVALID_OPTION_VALUE",
        )
    if lost and options.fail_on_data_loss:
        raise loss_error(lost, "name startingOffsets that the brokers hold")
    for loss in lost:
        _log.warning("failOnDataLoss is false; continuing: %s", loss)
    start = start.clamp(
        {key: bounds[key.store].min_offset for key in start}, {key: bounds[key.store].max_offset for key in start}
    )
    if options.end.by_time:
        # A partition that begins after its end in time has nothing to read.
        end = end.clamp(start, {})
    backward = [key for key in start if end[key] < start[key]]
    if backward:
        key = backward[0]
        raise ConfigurationError(
            f"endingOffsets {end[key]} of partition {key} is before its start at {start[key]}; swap or move them",
            condition="INVALID_OPTION_VALUE",
        )
    return start, end


def bounds_of_all(lookup: OffsetLookup, view: ClusterView) -> Mapping[StoreKey, StoreBounds]:
    """The bounds of all stores. ConnectError if a broker does not answer for `retryLimit`."""
    try:
        return lookup.bounds(view)
    except TransportError as error:
        raise no_answer(error) from error


def no_answer(error: TransportError) -> ConnectError:
    """What a batch read ends with, if `error` is of a broker."""
    return ConnectError(
        f"a batch read needs all brokers of its partitions, but one does not answer: {error}. Read again when it "
        "answers, raise retryLimit, or name the partitions of other brokers with assign",
        condition="BROKER_UNREACHABLE",
    )
