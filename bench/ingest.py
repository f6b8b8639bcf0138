"""The main job, JSON records of five columns into Delta: `tubeclient ingest` beside streams with `from_json`."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.contents import check_table
from bench.measuring import COST, Results, Side, spark_cpu, timed
from bench.stage import TASKS, Stage, Workload
from tubeclient import Producer

__all__ = ["backlog", "measure_ingest", "typed_rows"]

_RECORDS: Final = 300_000
_EACH_BAD: Final = 100
_SCHEMA: Final = "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP, paid BOOLEAN"
_BEGAN: Final = datetime(2026, 11, 28, tzinfo=UTC)
_STREAM_SECONDS: Final = 240
_ROUND_SECONDS: Final = 60.0


def _values(number: int) -> tuple[int, str, float, datetime, bool]:
    return number, f"customer {number:09}", number / 4, _BEGAN + timedelta(milliseconds=number), number % 3 == 0


def _good(number: int, _: int = 0) -> bytes:
    """About 100 bytes."""
    id, name, price, at, paid = _values(number)
    text = '{"id":%d,"name":"%s","price":%.2f,"at":"%s","paid":%s}'
    return (text % (id, name, price, f"{at:%FT%T.%f}"[:-3] + "Z", str(paid).lower())).encode()


def _one_in_a_hundred_bad(number: int, _: int = 0) -> bytes:
    """A bad one is cut off."""
    return _good(number) if _is_good(number) else _good(number)[:-20]


def _is_good(number: int) -> bool:
    return number % _EACH_BAD != _EACH_BAD - 1


def backlog(bad: bool, scale: float = 1.0) -> Workload:
    """With one bad record in a hundred, or with none."""
    return Workload("JSON", _RECORDS, 100, body=_one_in_a_hundred_bad if bad else _good).scaled(scale)


def typed_rows(numbers: Sequence[int]) -> pa.Table:
    """What these records are as rows."""
    columns = zip(*map(_values, numbers), strict=True)
    kinds = {"id": pa.int64(), "name": pa.string(), "price": pa.float64()}
    kinds |= {"at": pa.timestamp("us", "UTC"), "paid": pa.bool_()}
    return pa.table({name: pa.array(column, kinds[name]) for name, column in zip(kinds, columns, strict=True)})


def measure_ingest(stage: Stage, results: Results) -> None:
    """A backlog in one run or batch of each side, into a new table; then rounds of one record."""
    clean, work = backlog(False, stage.scale), backlog(True, stage.scale)
    numbers = range(work.messages)
    everything, good = typed_rows(numbers), typed_rows([*filter(_is_good, numbers)])
    bad = pa.table({"value": sorted(body for n, body in enumerate(work.bodies()) if not _is_good(n))})
    as_they_are = pa.table({"value": sorted(clean.bodies())})
    nulls = bad.num_rows

    def measured(job: Callable[[Path], object], check: Callable[[Path], object]) -> Side:
        def measure() -> Mapping[str, float]:
            folder = stage.folder / stage.name("ingest")
            before = spark_cpu(stage.spark)
            with timed() as running:
                job(folder)
            spent = spark_cpu(stage.spark) - before
            check(folder)
            shutil.rmtree(folder)
            return {"k rows/s": work.messages / running.seconds / 1000, COST: spent * 1e6 / work.messages}

        return measure

    def rows_of_ingest(folder: Path) -> None:
        check_table(str(folder / "target"), good)
        check_table(str(folder / "bad"), bad)

    tube, kafka = stage.tube_topic(work), stage.kafka_topic(work)
    without = stage.tube_topic(clean)

    def ingest(topic: str, bad_records: bool, **more: Any) -> Callable[[Path], object]:
        return lambda folder: _job(stage, folder, topic, bad_records, **more).run()

    def stream(source: str, options: Callable[[], Mapping[str, str]]) -> Side:
        return measured(
            lambda folder: _stream(stage, source, options(), folder),
            lambda folder: check_table(str(folder / "target"), good, nulls),
        )

    sides = {
        "`tubeclient ingest`, 1 % bad and kept": measured(ingest(tube, True, **_TYPED), rows_of_ingest),
        "`tubeclient ingest`, none bad nor kept": measured(
            ingest(without, False, **_TYPED), lambda folder: check_table(str(folder / "target"), everything)
        ),
        "`tubeclient ingest` into Iceberg, none bad nor kept": measured(
            lambda folder: _job(stage, folder, without, False, **_TYPED, **_iceberg(folder)).run(),
            lambda folder: check_table(str(folder / "lake"), everything),
        ),
        "`tubeclient ingest`, values as they are": measured(
            ingest(without, False), lambda folder: check_table(str(folder / "target"), as_they_are)
        ),
        "our stream and `from_json`, 1 % null": stream("tubeclient", lambda: stage.tube_options(tube)),
        "Spark's Kafka stream and `from_json`, 1 % null": stream("kafka", lambda: stage.kafka_options(kafka)),
    }
    results.take_turns(f"the main job, {_RECORDS // 1000} k JSON records into Delta", sides)
    _rounds_of_one(stage, results)


_TYPED: Final[Mapping[str, Any]] = {"format": "json", "schema": _SCHEMA}


def _iceberg(folder: Path) -> Mapping[str, Any]:
    return {"table_format": "iceberg", "warehouse": str(folder / "lake"), "target": "bench.target"}


def _job(stage: Stage, folder: Path, topic: str, bad_records: bool, **more: Any) -> Any:
    from tubeclient_ingest.job import Ingest

    if bad_records:
        more["bad_records"] = str(folder / "bad")
    return Ingest(
        stage.spark,
        target=more.pop("target", str(folder / "target")),
        offsets_table=str(folder / "offsets"),
        master_servers=stage.tubemq.master_address,
        consumer_group=stage.name("group"),
        topics=[topic],
        source_count=TASKS,
        source_options={"masterWebPort": str(stage.tubemq.master_web_port)},
        **more,
    )


def _stream(stage: Stage, source: str, options: Mapping[str, str], folder: Path) -> None:
    frame = stage.spark.readStream.format(source).options(**options).load()
    typed = frame.selectExpr(f"from_json(CAST(value AS STRING), '{_SCHEMA}') AS record").select("record.*")
    writer = typed.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "target"))
    try:
        if not query.awaitTermination(_STREAM_SECONDS):
            raise RuntimeError(f"the stream of {source} goes on after {_STREAM_SECONDS} s")
    finally:
        query.stop()


def _rounds_of_one(stage: Stage, results: Results) -> None:
    """Seconds of a round of one record, for a job that runs."""
    topic, folder = stage.name("rounds"), stage.folder / stage.name("ingest")
    stage.empty_topic(topic)
    job = _job(stage, folder, topic, True, trigger="0s", **_TYPED)
    with Producer(stage.settings) as producer:
        producer.publish([topic])
        producer.send(topic, _good(0))
        job.start()
        numbers = itertools.count(1)
        try:
            one = partial(_round, job, lambda: producer.send(topic, _good(next(numbers))))
            results.take_turns("the main job, a round of one record", {"`tubeclient ingest`": one})
        finally:
            job.stop()
    check_table(str(folder / "target"), typed_rows(range(next(numbers))))


def _round(job: Any, send: Callable[[], object]) -> Mapping[str, float]:
    """Of the round that takes the message that is sent now. RuntimeError: there is none within a minute."""
    deadline = time.monotonic() + _ROUND_SECONDS
    while job.lastProgress is None and job.isActive and time.monotonic() < deadline:
        time.sleep(0.02)
    before = job.summary.rounds
    send()
    while job.summary.rounds == before:
        if not job.isActive or time.monotonic() >= deadline:
            raise RuntimeError(f"the job made no round: {job.exception()}")
        time.sleep(0.01)
    return {"seconds": float(job.lastProgress.seconds)}
