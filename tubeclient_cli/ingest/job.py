"""The ingest job: a group's topics into a Delta table, each message once.

The table itself says where the group's rows end. A batch is written only if it begins exactly there. So a new
checkpoint starts there, a batch that Spark repeats is skipped, and an outdated checkpoint or a replaced run is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spark_source.boundary import as_one_line
from spark_source.offsets.offsets import Offsets
from spark_source.options.given import parse_options
from spark_source.read.schema import spark_schema
from spark_source.typed.record_format import BAD_REASON, as_records_mean
from tubeclient_cli.common.session import check_classic
from tubeclient_cli.ingest.batch_writer import BatchWriter
from tubeclient_cli.ingest.checkpoint import Checkpoint
from tubeclient_cli.ingest.group_position import bring_up_to_date, kept_positions
from tubeclient_cli.ingest.progress import BatchEvent
from tubeclient_cli.ingest.resume import going_on_text, known_positions, of_topics, start_text, starting_offsets
from tubeclient_cli.ingest.settings import GROUP, IngestSettings, query_name, says_offsets
from tubeclient_cli.ingest.sink import DeltaSink
from tubeclient_cli.ingest.sink_check import Batch, check_batch, check_beginning, check_cluster, check_going_on, trusted
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.target_columns import check_columns, columns_of
from tubeclient_cli.ingest.watch import IngestSummary, Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["IngestSettings", "run_ingest"]


def run_ingest(
    spark: SparkSession,
    settings: IngestSettings,
    on_batch: Callable[[BatchEvent], object] = lambda _: None,
    stop: threading.Event | None = None,
    on_start: Callable[[str], object] = lambda _: None,
    on_idle: Callable[[str], object] = lambda _: None,
    on_first: Callable[[], object] = lambda: None,
) -> IngestSummary:
    """Run the job in this session until it ends (available-now), `stop` is set, or it fails.

    `on_start` gets a text that says where a new checkpoint begins, or where an old one goes on. `on_batch` gets each
    completed batch, `on_idle` the time (ISO 8601) of each look that found nothing new; it may come again.
    `on_first` is called at most once: when the first batch is seen to run, or to be complete. All run in this thread.
    After `stop` the job waits for the running batch, at most `settings.stop_timeout_s`. Raises Spark's error for a
    failed query, OffsetsTableError, ConfigurationError; also for a session of Spark Connect.
    """
    check_classic(spark)
    stop = stop or threading.Event()
    if stop.is_set():
        return IngestSummary(rows=0, batches=0, seconds=0.0, rows_behind=None, stopped=True)
    checkpoint = Checkpoint(spark, settings.checkpoint)
    query_id = checkpoint.query_id()
    is_new = query_id is None
    record_format = settings.records.record_format()
    sink = DeltaSink(spark, settings.target, settings.consumer_group, evolve=settings.evolve)
    writer = BatchWriter(spark, settings, sink, record_format)
    chosen = settings.starting_offsets
    options = parse_options(settings.options("earliest"))
    # Before the look at the history, which takes Delta long: whoever corrects a schema waits for this.
    columns = spark.createDataFrame([], spark_schema(options))
    of_target = columns if settings.bad_records is None else columns.drop(BAD_REASON)
    check_columns(sink.rules().columns, columns_of(record_format, of_target), sink.where, evolve=settings.evolve)
    kept = kept_positions(settings)  # before the look at the rows, which another run may add to
    found = sink.look()
    check_cluster(found, sink.where, options.master_servers, settings.former_master_servers)
    state = found.without_topics(settings.begin_anew, query_id)
    in_table = of_topics(kept, set(settings.topics).difference(state.undone_topics))
    state = trusted(state, sink.where, settings.consumer_group, chosen, goes_on=not is_new and not says_offsets(chosen))
    # After the look at what others removed: the bad records of rows that are gone are missing for that reason.
    writer.open()
    writer.settle(found)
    check_beginning(state, sink.where, settings.consumer_group, chosen, in_offsets_table=bool(in_table))
    if not is_new and state.record is None:
        planned = checkpoint.newest_end() or Offsets({})
        check_going_on(state, sink.where, settings.consumer_group, planned, in_table)
    known = known_positions(state.ends, in_table, settings.topics, chosen)
    starting = starting_offsets(known, settings.topics, settings.fallback, settings.named("starting_offsets"))
    newest = checkpoint.newest_batch()
    if query_id is not None and newest is not None:
        on_start(going_on_text(query_id, newest, checkpoint.newest_batch("commits")))
    else:
        on_start(start_text(known, state.ends, in_table, settings.topics, chosen, settings.begin_anew))

    rows = spark.readStream.format("tubeclient").options(**settings.options(starting)).load()
    batches = _Batches(
        settings, options.master_servers, sink, writer, checkpoint, known, may_lose=not options.fail_on_data_loss
    )
    query = rows.writeStream.foreachBatch(as_one_line()(batches.write))
    query = query.option("checkpointLocation", settings.checkpoint).queryName(query_name(settings.consumer_group))
    interval_ms = settings.interval_ms
    if interval_ms is None:
        query = query.trigger(availableNow=True)
    else:
        query = query.trigger(processingTime=f"{interval_ms} milliseconds")
    with as_records_mean(spark):  # the query gets a copy of the session's settings
        running = query.start()
    watch = Watch(running, on_batch, on_idle, writer.bad_of, stop, settings.stop_timeout_s, on_first)
    summary = watch.until_end()
    as_of = datetime.now(UTC)
    bring_up_to_date(settings, batches.ends(), as_of)
    return summary


class _Batches:
    """The callback of foreachBatch."""

    def __init__(
        self,
        settings: IngestSettings,
        masters: tuple[str, ...],
        sink: DeltaSink,
        writer: BatchWriter,
        checkpoint: Checkpoint,
        known: Offsets,
        *,
        may_lose: bool,
    ) -> None:
        self._settings = settings
        self._masters = masters
        self._sink = sink
        self._writer = writer
        self._checkpoint = checkpoint
        self._known = known
        # With any other value a query begins where the table ends, not past it.
        self._skips = settings.starting_offsets == GROUP
        self._may_lose = may_lose
        self._query_id: str | None = None

    def ends(self) -> Offsets:
        """Where the group's rows in the sink end; {} if another query wrote the last rows."""
        record = self._sink.look().record
        return record.ends if record is not None and record.query_id == self._checkpoint.query_id() else Offsets({})

    def write(self, rows: DataFrame, batch_id: int) -> None:
        if self._query_id is None:
            self._query_id = self._checkpoint.query_id()
        end = self._checkpoint.end_of(batch_id)
        if self._query_id is None or end is None:
            raise RuntimeError(f"Spark runs batch {batch_id} that its own checkpoint does not know")
        group, chosen = self._settings.consumer_group, self._settings.starting_offsets
        # Look again for each batch: others may have written to the table or restored it since the last one.
        found, where = self._sink.look(), self._sink.where
        check_cluster(found, where, self._masters, self._settings.former_master_servers)
        state = found.without_topics(self._settings.begin_anew, self._query_id)
        state = trusted(state, where, group, chosen, goes_on=batch_id > 0)
        self._writer.settle(found)
        # Not by their truth: with no offset at all, {}, a batch begins while all partitions wait for their brokers.
        start = self._checkpoint.start_of_running_batch()
        if start is None:
            start = self._checkpoint.end_of(batch_id - 1)
        batch = Batch(self._query_id, batch_id, end if start is None else start, end)
        if check_batch(state, batch, self._known, skips=self._skips, may_lose=self._may_lose):
            # Partitions that left the cluster leave the offsets. If the name returns, it begins anew.
            ends = state.ends.without(batch.start.keys() - end.keys()).merge(end)
            record = SinkRecord(group, self._query_id, batch_id, ends, masters=self._masters)
            self._writer.write(rows, record, found)
