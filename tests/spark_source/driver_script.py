"""A driver in its own process: runs calls of the tests on a SparkSession, one line of JSON per call.

It is started by its path, in any environment, so it imports nothing of the tests. `other_driver.py` is its counterpart.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_tubeclient import Ingest, inlong_records, typed

Options = dict[str, str]


class Driver:
    """The calls, each with JSON for arguments and answer."""

    def __init__(self, confs: dict[str, str]) -> None:
        builder = SparkSession.builder
        for name, value in confs.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._queries: dict[str, StreamingQuery] = {}
        self._heard: list[Any] = []

    def versions(self) -> list[str]:
        """Of the pyspark that runs here, of the Spark that it drives, and the module of the session's class."""
        return [pyspark.__version__, self._spark.version, type(self._spark).__module__]

    def read(self, options: Options) -> list[str]:
        return _bodies(self._spark.read.format("tubeclient").options(**options).load())

    def typed(self, options: Options, schema: str, format: str = "csv", **more: Any) -> list[list[Any]]:
        """Of each record its first column, its text, and what is wrong with it."""
        frame = self._spark.read.format("tubeclient").options(**options).load()
        rows = typed(frame, format, schema, **more)
        found = rows.selectExpr(rows.columns[0], "CAST(tubemq.value AS STRING)", "badReason").collect()
        return sorted(map(list, found), key=lambda row: str(row[1]))

    def unpack(self, options: Options, schema: str, stream: dict[str, str] | None = None) -> list[list[Any]]:
        """Each record of InLong's packs in a topic of Kafka, read as csv: its columns, what is wrong with it, and what
        it has of its pack. With places, by a stream that ends."""
        reader = self._spark.read if stream is None else self._spark.readStream
        frame = typed(inlong_records(reader.format("kafka").options(**options).load()), "csv", schema)
        names = ["inlongGroupId", "inlongStreamId", "recordIndex", "topic", "partition", "offset"]
        more = ["unix_millis(tubemq.dataTime) AS ms", "hex(tubemq.value) AS value"]
        found = frame.selectExpr("id", "name", "badReason", *(f"tubemq.{name}" for name in names), *more)
        if stream is not None:
            writer = found.writeStream.format("json").option("checkpointLocation", stream["checkpoint"])
            query = writer.trigger(availableNow=True).start(stream["rows"])
            assert query.awaitTermination(60)
            found = self._spark.read.schema(found.schema).json(stream["rows"])
        return sorted(map(list, found.collect()), key=str)

    def make_view(self, name: str, options: Options) -> None:
        given = ", ".join(f"{key} '{value}'" for key, value in options.items())
        self._spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING tubeclient OPTIONS ({given})")

    def sql(self, text: str) -> list[list[Any]]:
        return [list(row) for row in self._spark.sql(text).collect()]

    def start(self, name: str, options: Options, checkpoint: str, rows: str, trigger: dict[str, Any]) -> None:
        """A streaming query into Parquet files at `rows`, which have each row once."""
        frame = self._spark.readStream.format("tubeclient").options(**options).load()
        writer = frame.select("value").writeStream.format("parquet").option("path", rows)
        self._queries[name] = writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()

    def ingest(self, settings: dict[str, Any]) -> list[int]:
        """Run the job to its end; returns its rows, and how many of them are bad."""
        done = Ingest(self._spark, **settings).run()
        return [done.rows, done.bad_rows]

    def start_ingest(self, settings: dict[str, Any]) -> None:
        """In the background, until this process ends."""
        self._job = Ingest(self._spark, **settings).start()

    def ingested(self) -> int:
        """Rows that the job in the background has written; raises what ended it."""
        self._job.awaitTermination(0)
        return self._job.summary.rows

    def retry(self, settings: dict[str, Any]) -> list[int]:
        """Of the bad records, how many were moved and how many are still bad."""
        done = Ingest(self._spark, **settings).retry()
        return [done.moved, done.still_bad]

    def bad_records(self, settings: dict[str, Any]) -> list[list[str]]:
        """Text and state of each."""
        frame = Ingest(self._spark, **settings).bad_records()
        return sorted(map(list, frame.selectExpr("CAST(value AS STRING)", "state").collect()))

    def run_notebook(self, path: str, widgets: dict[str, str], secrets: dict[str, str]) -> list[str]:
        """Run a notebook in Databricks' source format with these answers of its `dbutils`; returns what it displays."""
        shown: list[str] = []
        answers = SimpleNamespace(
            widgets=SimpleNamespace(text=lambda *_: None, get=widgets.__getitem__),
            secrets=SimpleNamespace(get=lambda scope, key: secrets[f"{scope}/{key}"]),
        )
        text = Path(path).read_text(encoding="utf-8")
        known = {"spark": self._spark, "dbutils": answers, "display": lambda frame: shown.append(str(frame.collect()))}
        exec(compile(text, path, "exec"), known)
        job = known["job"]
        return [*shown, f"{job.status}; {job.exception()}", job._repr_html_()]  # type: ignore[attr-defined]

    def rows(self, rows: str) -> list[str]:
        """What a query that has had a batch has written."""
        return _bodies(self._spark.read.parquet(rows))

    def wait(self, name: str, seconds: float) -> bool:
        """Whether a query ended in time; raises what ended it early."""
        return self._queries[name].awaitTermination(int(seconds)) is True

    def batches(self, name: str) -> list[tuple[int, int]]:
        """Number and count of rows of the batches that a query told of, without empty ones."""
        told = self._queries[name].recentProgress
        return [(one.batchId, one.numInputRows) for one in told if one.numInputRows]

    def stop(self, name: str) -> None:
        self._queries.pop(name).stop()

    def write(self, bodies: list[str], options: Options) -> None:
        frame = self._spark.createDataFrame([(body,) for body in bodies], "value string")
        frame.write.format("tubeclient").options(**options).mode("append").save()

    def copy(self, options: Options, target: Options, checkpoint: str) -> None:
        """A streaming query of all there is into another topic, to its end."""
        frame = self._spark.readStream.format("tubeclient").options(**options).load().select("value")
        writer = frame.writeStream.format("tubeclient").options(**target, checkpointLocation=checkpoint)
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()

    def listen(self) -> None:
        """Keep what a LagListener hears from now on."""
        from spark_source.progress.lag_listener import LagListener

        self._listener = LagListener(self._heard.append)
        self._spark.streams.addListener(self._listener)

    def stop_listening(self) -> None:
        """A client of Spark Connect has a thread for its listeners, and does not end before it has none."""
        self._spark.streams.removeListener(self._listener)

    def heard(self) -> list[tuple[int, int]]:
        """Batch and rows behind of all that was heard."""
        return [(one.batch_id, one.rows_behind) for one in self._heard]


def _bodies(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is no answer
    driver = Driver(json.loads(sys.argv[1]))
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = [True, getattr(driver, name)(**arguments)]
        except Exception as error:
            answer = [False, f"{type(error).__name__}: {error}"]
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
