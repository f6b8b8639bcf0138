"""A reading task: reads ranges of one node and passes Arrow batches to Spark. A pure function of its ranges.

It does not move the group. Attempts of one task may run at the same time, so each uses its own name, in a reader group
whose partition is free.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spark_source.boundary import set_up_task
from spark_source.options.source_options import SourceOptions
from tubeclient.keys import INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    import pyarrow

    from spark_source.plan.read_task import ReadTask
    from tubeclient.flows.read_range import Pack
    from tubeclient.keys import PartitionKey

__all__ = ["attempt_name", "gathered", "read_task", "regroup"]

_log = logging.getLogger(__name__)

MIN_BATCH_ROWS: Final = 10_000
MIN_BATCH_BYTES: Final = 2 << 20
MAX_BATCH_ROWS: Final = 64_000
MAX_BATCH_BYTES: Final = 8 << 20
"""Both sides of the socket to Spark hold a whole batch. A single larger message is a batch of its own."""
_MOST_ROWS: Final = 1 << 20
"""More than a message has (`Limits.max_records` of tubeclient.inlong)."""


def read_task(options: SourceOptions, task: ReadTask, arrival: str | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the messages of the task's ranges in batches of a good size for Spark. `arrival` names a column more, which
    rises in the order of each partition's rows, whichever tasks read its parts; bad messages have no number of their
    own.

    Memory: at most one batch, and a few packs. Raises DataLoss, CorruptMessage, or the error that
    stopped the reader for `retryLimit`.
    """
    # Imported here, because the planner loads this module too and does not need them.
    import pyarrow as pa

    from spark_source.options.access import client_settings
    from spark_source.read.arrow import PackDecoder
    from spark_source.read.schema import arrow_schema
    from tubeclient.consumers.group import present_brokers
    from tubeclient.errors import CorruptMessage
    from tubeclient.range_reader import RangeReader, WantedRange

    set_up_task()
    settings, groups = client_settings(options), options.reader_groups
    topics = sorted({key.topic for key, _, _ in task.ranges})
    task = replace(task, brokers=tuple(present_brokers(settings, groups, task.brokers, topics)))

    def is_alone(key: PartitionKey) -> bool:
        """Whether the partition, the first of its store, is still alone there."""
        return not reader.has_partition(task.broker_of(key), key._replace(partition_id=key.partition_id + 1))

    decoder = PackDecoder(
        rows=options,
        time_zone=options.message_time_zone,
        fail_on_data_loss=options.fail_on_data_loss,
        is_alone=is_alone,
    )
    reader = RangeReader(
        settings,
        groups,
        attempt_name(task),
        fail_on_data_loss=options.fail_on_data_loss,
        bad_messages=options.bad_messages,
        visit_token=task.visit_token,
        store_sizes=task.store_sizes,
    )

    names = arrow_schema(options).names
    wanted = [
        WantedRange(task.broker_of(part.partition), part, options.tags_of(part.partition.topic)) for part in task.ranges
    ]

    bad_rows = 0
    newest = [part.start // INDEX_ENTRY_BYTES * _MOST_ROWS for part in task.ranges]  # of the last row of each

    def batches() -> Iterator[pyarrow.RecordBatch]:
        nonlocal bad_rows
        with closing(reader.read_all(wanted)) as found:
            for number, packs in gathered(found):
                part = wanted[number]
                for batch in decoder.batches(packs, task.offset_rule_of(part.range.partition), part.filters):
                    if options.bad_messages == "keep":
                        bad_rows += batch.num_rows - batch.column("badReason").null_count
                    own = batch.select(names) if options.columns else batch
                    if arrival is not None:
                        rising = newest[number] + _good_rows(batch)
                        newest[number] = int(rising.max(initial=newest[number]))
                        own = own.append_column(arrival, pa.array(rising))
                    yield own

    try:
        yield from regroup(batches())
    except CorruptMessage as error:
        if error.number is None:
            raise  # not of one message
        raise CorruptMessage(f"{error}. With badMessages=keep the message is a row, with the reason") from error
    finally:
        reader.close()
        if bad_rows:
            _log.warning("node %d returned %d bad messages as rows", task.node_id, bad_rows)
    within: Counter[PartitionKey] = Counter()
    for loss in reader.losses:
        if loss.within_packs:
            within[loss.partition] += loss.max_messages
    lost = sum(loss.max_messages for loss in reader.losses if not loss.within_packs)
    # Both may count the same messages. The decoder's may be more, and include damaged ones.
    lost += sum((within | decoder.missing).values())
    if lost:
        _log.warning(
            "failOnDataLoss is false; node %d continued without at most %d messages in %d ranges",
            task.node_id,
            lost,
            len(reader.losses),
        )


def _good_rows(batch: pyarrow.RecordBatch) -> Any:
    """How many good rows there are up to each row, itself included. Bad messages come at other places among the rows in
    each attempt."""
    import numpy as np

    if "badReason" not in batch.schema.names:
        return np.arange(1, batch.num_rows + 1)
    return np.cumsum(batch.column("badReason").is_null().to_numpy(zero_copy_only=False))


def attempt_name(task: ReadTask) -> str:
    """This attempt's name for the brokers' pages: node, batch and attempt number; outside of a task, the node."""
    from pyspark import TaskContext

    name = f"spark.n{task.node_id}"
    context = TaskContext.get()
    if context is None:
        return name
    batch = context.getLocalProperty("streaming.sql.batchId") or "none"
    return f"{name}.b{batch}.a{context.attemptNumber()}"


def gathered(packs: Iterable[tuple[int, Pack | None]]) -> Iterator[tuple[int, list[Pack]]]:
    """Yield packs of each range, in groups large enough for a batch. Packs come with their range's number; a None ends
    a range, and its last group may be small."""
    buffered: dict[int, list[Pack]] = {}
    rows, size = Counter[int](), Counter[int]()
    for number, pack in packs:
        group = buffered.setdefault(number, [])
        if pack is not None:
            group.append(pack)
            rows[number] += len(pack)
            size[number] += pack.payload_bytes
            if rows[number] < MIN_BATCH_ROWS and size[number] < MIN_BATCH_BYTES:
                continue
        if group:
            yield number, group
        del buffered[number], rows[number], size[number]


def regroup(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the same rows in fewer batches: each has at least MIN_BATCH_ROWS rows or MIN_BATCH_BYTES, or the next would
    not fit into it.

    No batch has more than MAX_BATCH_ROWS rows or, unless it is a single row, more than MAX_BATCH_BYTES.
    """
    buffered: list[pyarrow.RecordBatch] = []
    rows = size = 0
    for whole in batches:
        for batch in _cut(whole):
            more = batch.nbytes
            if buffered and (rows + batch.num_rows > MAX_BATCH_ROWS or size + more > MAX_BATCH_BYTES):
                yield _joined(buffered)
                buffered, rows, size = [], 0, 0
            buffered.append(batch)
            rows, size = rows + batch.num_rows, size + more
            if rows >= MIN_BATCH_ROWS or size >= MIN_BATCH_BYTES:
                yield _joined(buffered)
                buffered, rows, size = [], 0, 0
    if buffered:
        yield _joined(buffered)


def _joined(batches: list[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    import pyarrow as pa

    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined[0] if joined else batches[0]  # without rows there is none


def _cut(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """Yield `batch`, halved until no part is too large; nothing for an empty one."""
    if batch.num_rows == 0:
        return
    if batch.num_rows == 1 or (batch.num_rows <= MAX_BATCH_ROWS and batch.nbytes <= MAX_BATCH_BYTES):
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))
