"""What a pushed filter saves: a batch read of a tenth of a topic by `messageTime`, beside a read of all.

Every message has a time, as producers give it; the times of a topic are of one day. Each read must have its rows. A
read of nothing shows what Spark itself takes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from bench.results import Results, RunSettings
from bench.rounds import add_turns
from bench.spark_reads import RowsError, timed_read, tube_options
from bench.stage import Stage
from bench.workloads import LAYOUTS, WORKLOADS, scaled
from bench.written import IN_FLIGHT
from tubeclient import ClientSettings, Producer, SendResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["GROUP", "fill_day", "measure_filters", "sent_before"]

GROUP: Final = "filters"
_DAY: Final = datetime(2026, 11, 1, tzinfo=UTC)
_MINUTES: Final = 24 * 60
_FIRST: Final = 12 * 60
_END: Final = _FIRST + _MINUTES // 10
"""The tenth that is asked for, in minutes of the day."""
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_PUSHED: Final = {"pushFilters": "true", "messageTimeZone": "UTC", "messageTimeDisorder": "10m"}
_ANSWER_SECONDS, _FILL_SECONDS = 60.0, 600.0


def measure_filters(stage: Stage, results: Results, run: RunSettings) -> None:
    """Seconds of a read of all, and of a tenth by its time, in both layouts."""
    work = scaled(WORKLOADS[0], run.scale)
    sides, titles = {}, {}
    for layout in LAYOUTS:
        topic = f"{GROUP}_{layout.key}"
        stage.empty_topic(topic, layout, work)
        began = time.perf_counter()
        # In a process of its own: what the producer leaves in memory is none of Spark's driver's.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(fill_day, stage.settings, topic, work.messages, work.body_bytes).result(_FILL_SECONDS)
        stage.say(f"filled {topic} with {work.messages:,} messages of a day in {time.perf_counter() - began:.0f} s")
        options = tube_options(stage.settings, topic)
        for who, title, read in (
            ("all", "a batch read of all", partial(timed_read, stage.spark, "tubeclient", options, work.messages)),
            ("tenth", "`where messageTime between` a tenth", partial(_read_tenth, stage.spark, options, work.messages)),
            ("nothing", "`where partition < 0`", partial(_counted, stage.spark, options, "partition < 0", 0)),
        ):
            sides[f"{GROUP}/{layout.key}/{who}"] = read
            titles[f"{GROUP}/{layout.key}/{who}"] = f"{work.title} of one day, {layout.title}: {title}"
    stage.spark.conf.set(_PUSHDOWN, "true")
    try:
        add_turns(results, run, sides, titles, "seconds", stage.say)
    finally:
        stage.spark.conf.unset(_PUSHDOWN)


def _read_tenth(spark: SparkSession, options: Mapping[str, str], messages: int) -> float:
    first, last = (_DAY + timedelta(minutes=minute) for minute in (_FIRST, _END - 1))
    times = f"messageTime BETWEEN TIMESTAMP '{first.isoformat()}' AND TIMESTAMP '{last.isoformat()}'"
    return _counted(spark, options, times, sent_before(_END, messages) - sent_before(_FIRST, messages))


def _counted(spark: SparkSession, options: Mapping[str, str], where: str, wanted: int) -> float:
    """Seconds until the matching rows are counted. RowsError: they are not so many."""
    began = time.perf_counter()
    frame = spark.read.format("tubeclient").options(**options, **_PUSHED).load()
    rows = frame.where(where).count()
    seconds = time.perf_counter() - began
    if rows != wanted:
        raise RowsError(f"{rows} rows of {options['subscribe']} match {where}, not {wanted}")
    return seconds


def sent_before(minute: int, messages: int) -> int:
    """How many of a day's messages were sent before this minute of it began."""
    return messages * minute // _MINUTES


def fill_day(settings: ClientSettings, topic: str, messages: int, body_bytes: int) -> None:
    """Send the messages of a day, minute after minute. RuntimeError: the broker did not take them all."""
    unanswered: list[Future[SendResult]] = []
    with Producer(settings, max_in_flight=IN_FLIGHT) as producer:
        producer.publish([topic])
        for minute in range(_MINUTES):
            numbers = range(sent_before(minute, messages), sent_before(minute + 1, messages))
            bodies = [b"%0*d" % (body_bytes, number) for number in numbers]
            sent = producer.submit_many(topic, bodies, time=_DAY + timedelta(minutes=minute))
            unanswered = [one for one in unanswered + sent if not one.done() or one.exception() is not None]
        errors = [error for one in unanswered if (error := one.exception(_ANSWER_SECONDS)) is not None]
    if errors:
        raise RuntimeError(f"{len(errors)} of {messages} messages were not taken: {errors[0]}")
