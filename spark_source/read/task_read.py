"""A reading task: reads ranges of one node and passes Arrow batches to Spark. A pure function of its ranges.

It does not move the group. Attempts of one task may run at the same time, so each uses its own name, in a reader group
whose partition is free.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_source.options.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow

    from spark_source.plan.read_task import ReadTask
    from tubeclient.keys import PartitionKey

__all__ = ["attempt_name", "read_task"]

_log = logging.getLogger(__name__)


def read_task(options: SourceOptions, task: ReadTask) -> Iterator[pyarrow.RecordBatch]:
    """Yield the messages of the task's ranges in batches of a good size for Spark.

    Memory: at most one batch, and a few packs. Raises DataLoss, CorruptMessage, or the error that
    stopped the reader for `retryLimit`.
    """
    # Imported here, because the planner loads this module too and does not need them.
    from spark_source.options.access import client_settings
    from spark_source.read.arrow import PackDecoder
    from spark_source.read.batch_sizes import gathered, regroup
    from spark_source.read.schema import arrow_schema
    from tubeclient.consumers.group import present_brokers
    from tubeclient.errors import CorruptMessage
    from tubeclient.range_reader import RangeReader, WantedRange

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
        WantedRange(task.broker_of(one.partition), one, options.tags_of(one.partition.topic)) for one in task.ranges
    ]

    kept = 0

    def batches() -> Iterator[pyarrow.RecordBatch]:
        nonlocal kept
        with closing(reader.read_all(wanted)) as found:
            for number, packs in gathered(found):
                one = wanted[number]
                for batch in decoder.batches(packs, task.offset_rule_of(one.range.partition), one.filters):
                    if options.bad_messages == "keep":
                        kept += batch.num_rows - batch.column("badReason").null_count
                    yield batch.select(names) if options.columns else batch

    try:
        yield from regroup(batches())
    except CorruptMessage as error:
        if error.number is None:
            raise  # not of one message
        raise CorruptMessage(f"{error}. With badMessages=keep the message is a row, with the reason") from error
    finally:
        reader.close()
        if kept:
            _log.warning("node %d kept %d bad messages as rows", task.node_id, kept)
    within: Counter[PartitionKey] = Counter()
    for one in reader.losses:
        if one.within_packs:
            within[one.partition] += one.max_messages
    lost = sum(one.max_messages for one in reader.losses if not one.within_packs)
    # Both may count the same messages. The decoder's may be more, and include damaged ones.
    lost += sum((within | decoder.missing).values())
    if lost:
        _log.warning(
            "failOnDataLoss is false, node %d went on without at most %d messages in %d ranges",
            task.node_id,
            lost,
            len(reader.losses),
        )


def attempt_name(task: ReadTask) -> str:
    """This attempt's name for the brokers' pages: node, batch and attempt number; outside of a task, the node."""
    from pyspark import TaskContext

    name = f"spark.n{task.node_id}"
    context = TaskContext.get()
    if context is None:
        return name
    batch = context.getLocalProperty("streaming.sql.batchId") or "none"
    return f"{name}.b{batch}.a{context.attemptNumber()}"
