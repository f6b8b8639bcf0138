"""The likeliest mistakes that only a running Spark meets, and what its error begins with.

`tests/test_mistakes.py` has those that need no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, batch, run_available, running, stream, wait_for_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class User:
    """What a user has: a session, a topic with ten messages, and a folder."""

    def __init__(self, spark: SparkSession, feed: Feed, folder: Path) -> None:
        self.spark, self.feed, self.folder = spark, feed, folder

    def read(self, **options: object) -> None:
        batch(self.spark, self.feed.options("", **options)).collect()

    def follow(self, **options: object) -> None:
        more = {"startingOffsets": "earliest", **options}
        run_available(stream(self.spark, self.feed.options("", **more)), self.folder / "checkpoint", Batches())

    def values(self, column: str = "CAST(id AS STRING) AS value") -> DataFrame:
        return self.spark.range(2).selectExpr(column)

    def write(self, rows: DataFrame, mode: str = "append", **options: str) -> None:
        given = {"masterServers": self.feed.tube.master_address, "topic": self.feed.topic, **options}
        rows.write.format("tubeclient").options(**given).mode(mode).save()

    def write_stream(self, rows: DataFrame, mode: str) -> None:
        given = {"masterServers": self.feed.tube.master_address, "topic": self.feed.topic}
        writer = rows.writeStream.format("tubeclient").options(**given).outputMode(mode).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / "written")).start()
        try:
            query.awaitTermination(60)
        finally:
            query.stop()


def given_a_schema(user: User) -> None:
    user.spark.read.format("tubeclient").options(**user.feed.options()).schema("value string").load().collect()


def given_a_path(user: User) -> None:
    user.spark.read.format("tubeclient").options(**user.feed.options()).load("/lake/clicks").collect()


def of_a_second_query(user: User) -> None:
    options = user.feed.options(startingOffsets="earliest")
    first = Batches()
    with running(stream(user.spark, options), user.folder / "first", first) as query:
        wait_for_rows(query, first, 10, "the first query's batch")
        user.follow()


def of_another_checkpoint(user: User) -> None:
    user.follow()
    other = Feed.create(user.feed.tube, f"{user.feed.topic}_2", stores=1, partitions=1)
    User(user.spark, other, user.folder).follow()


def of_a_table_that_is_none(user: User) -> None:
    path = str(user.folder / "events")
    user.spark.range(1).write.format("delta").save(path)
    user.follow(offsetsTable=path)


def counted(user: User) -> None:
    rows = stream(user.spark, user.feed.options(startingOffsets="earliest"))
    user.write_stream(rows.groupBy("value").count().select("value"), "complete")


MISTAKES: list[tuple[str, Callable[[User], None], str, str]] = [
    # What the user did, how, the error's name, a part of its text.
    ("a schema of one's own", given_a_schema, "FIXED_SCHEMA", "leave"),
    ("a path", given_a_path, "UNKNOWN_OPTION", "call .load(), .save() or .start() without one"),
    ("a batch from the end", lambda user: user.read(startingOffsets="latest"), "INVALID_SETTING", "in a batch read"),
    ("a topic that is misspelt", lambda user: user.read(subscribe="clikcs"), "TOPIC_NOT_FOUND", "clikcs"),
    ("a stream of it", lambda user: user.follow(subscribe="clikcs"), "TOPIC_NOT_FOUND", "Check the topic's spelling"),
    (
        "a start past the end",
        lambda user: user.read(startingOffsets='{"default": 28000}'),
        "DATA_LOSS",
        "should be read from 28000",
    ),
    ("a second query of a group", of_a_second_query, "NODE_OCCUPIED", "a second query"),
    ("another query's checkpoint", of_another_checkpoint, "OTHER_CHECKPOINT", "the checkpoint is of"),
    ("a table of something else", of_a_table_that_is_none, "OFFSETS_TABLE_SCHEMA", "offsets table"),
    ("an overwrite", lambda user: user.write(user.values(), "overwrite"), "APPEND_ONLY", 'use mode("append")'),
    ("a stream of complete results", counted, "APPEND_ONLY", 'use outputMode("append")'),
    ("no column value", lambda user: user.write(user.values("id AS number")), "INVALID_SETTING", "value"),
    (
        "a write to a topic that is misspelt",
        lambda user: user.write(user.values(), topic="clikcs", masterWebPort="1"),
        "PARTITION_UNAVAILABLE",
        "check its spelling",
    ),
]


def test_there_are_some() -> None:
    assert len(MISTAKES) >= 10


@pytest.mark.parametrize(("mistake", "do", "name", "part"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_an_error_begins_with_its_name(
    delta_spark: SparkSession,
    feed: Feed,
    tmp_path: Path,
    mistake: str,
    do: Callable[[User], None],
    name: str,
    part: str,
) -> None:
    feed.send(10)
    with pytest.raises(Exception, match=rf"\[{name}\] ") as caught:
        do(User(delta_spark, feed, tmp_path))
    # Spark's own words may be before it: that a query ended, or that a worker raised it.
    before, told = str(caught.value).split(f"[{name}] ", 1)
    assert len(before.splitlines()) <= 2, f"{mistake}: {before}"
    assert "Traceback" not in before
    assert part in told.splitlines()[0]
