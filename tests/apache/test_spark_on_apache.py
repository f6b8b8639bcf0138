"""`format("tubeclient")` on Apache's own servers."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from offsets_store import GroupKey, OffsetsTable
from tests.apache.fixtures import options
from tests.apache.server import ApacheTubeMQ
from tubeclient import ClientSettings, OffsetLookup, Producer, fetch_view, reader_groups_of

pytestmark = [pytest.mark.apache, pytest.mark.spark]

STREAM_SECONDS = 120


def to_delta(spark: SparkSession, given: dict[str, str], folder: Path, checkpoint: str) -> StreamingQuery:
    """Everything there is now, into the Delta table `folder`/rows."""
    query = (
        spark.readStream.format("tubeclient")
        .options(**given)
        .load()
        .writeStream.format("delta")
        .option("checkpointLocation", str(folder / checkpoint))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    assert query.awaitTermination(STREAM_SECONDS)
    return query


def values(frame: DataFrame) -> Counter[bytes]:
    return Counter(bytes(row.value) for row in frame.select("value").collect())


@pytest.mark.merge
def test_delta_stream_over_restarts(
    apache: ApacheTubeMQ,
    delta_spark: SparkSession,
    settings: ClientSettings,
    producer: Producer,
    tmp_path: Path,
) -> None:
    """Delta gets each message once if a stream restarts or changes its checkpoint."""
    producer.publish(["apache_stream"])
    offsets_table = str(tmp_path / "offsets")
    given = options(
        apache,
        "apache_stream",
        "into_delta",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=700,
        offsetsTable=offsets_table,
    )
    before = values(delta_spark.read.format("tubeclient").options(**options(apache, "apache_stream", "look")).load())
    sent = Counter(before)

    def send(count: int) -> None:
        bodies = [b"%d of %d" % (number, sum(sent.values())) for number in range(count)]
        for future in [producer.submit("apache_stream", body) for body in bodies]:
            future.result(30)
        sent.update(bodies)

    send(2_000)
    first = to_delta(delta_spark, given, tmp_path, "checkpoint")
    rows = [progress["numInputRows"] for progress in first.recentProgress]
    assert max(rows) == 700
    assert all(count == 700 for count in rows[:-1])
    send(500)
    to_delta(delta_spark, given, tmp_path, "checkpoint")
    send(300)
    resumed = {**given, "startingOffsets": "group"}
    to_delta(delta_spark, resumed, tmp_path, "a new checkpoint")
    assert values(delta_spark.read.format("delta").load(str(tmp_path / "rows"))) == sent

    progress = OffsetsTable(offsets_table).latest(GroupKey("into_delta", ["apache_stream"]))
    assert progress is not None
    view = fetch_view(settings, ["apache_stream"], reader_groups_of("into_delta"))
    with closing(OffsetLookup(settings, reader_groups_of("into_delta"))) as lookup:
        ends = {store: bounds.max_offset for store, bounds in lookup.bounds(view).items()}
        assert lookup.group_positions(view, "into_delta") == {}
    assert {p.partition: p.next_offset for p in progress.partitions} == {
        key: ends[key.store] for key in view.partitions()
    }


@pytest.mark.merge
def test_second_query_of_a_group(apache: ApacheTubeMQ, delta_spark: SparkSession, tmp_path: Path) -> None:
    """The master refuses a second query of a group while the first one runs."""

    def start(name: str, **more: object) -> StreamingQuery:
        given = options(apache, "apache_stream", "one_owner", groupJoinTimeout="1s", **more)
        frame = delta_spark.readStream.format("tubeclient").options(**given).load()
        return (
            frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name)).queryName(name).start()
        )

    holder = start("holder")
    try:
        holder.processAllAvailable()
        for name, more, text in (
            ("same", {}, r"one_owner node 0 of 2.*430"),
            ("other", {"sourceCount": 3}, r"one_owner node 0 of 3.*429"),
        ):
            rival = start(name, **more)
            with pytest.raises(StreamingQueryException, match=text):
                rival.awaitTermination(60)
        assert holder.isActive
    finally:
        holder.stop()


@pytest.mark.merge
def test_write_and_read_back(apache: ApacheTubeMQ, delta_spark: SparkSession) -> None:
    """A read returns the value, tag, time, and attributes that a write sent."""
    columns = ["value", "messageType", "messageTime", "attributes"]
    rows = delta_spark.range(0, 3_000, 1, 2).selectExpr(
        "cast(concat('written-', id) AS binary) AS value",
        "if(id % 3 = 0, null, concat('tag', id % 3)) AS messageType",
        "if(id % 2 = 0, null, timestamp'2026-11-21 10:30:00') AS messageTime",
        "if(id % 5 = 0, map(), map('number', cast(id AS string))) AS attributes",
    )
    to = {"masterServers": apache.master_address, "topic": "apache_single", "messageTimeZone": "Asia/Shanghai"}
    write = rows.withColumnRenamed("messageType", "tag").write.format("tubeclient").mode("append")
    write.options(**to).save()
    given = options(apache, "apache_single", "wrote", columns="*, attributes", messageTimeZone="Asia/Shanghai")
    read = delta_spark.read.format("tubeclient").options(**given).load()
    found = read.filter("startswith(cast(value AS string), 'written-')").select(columns)
    assert found.orderBy("value").collect() == rows.select(columns).orderBy("value").collect()

    with pytest.raises(Exception, match="publishing to no_such_topic: the master lists no partition to write to"):
        write.options(**{**to, "topic": "no_such_topic", "retryLimit": "1s"}).save()
