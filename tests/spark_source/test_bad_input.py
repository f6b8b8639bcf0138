"""What users get wrong, end to end: the error comes early, names the thing, and says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from embedded_tubemq.common.refusal import ConnectionFault
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, batch, run_available, running, stream, wait_for_rows
from tests.waiting import wait_for
from tubeclient.wire.methods import Method

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

SECRET = "hunter2-hunter2"


@pytest.mark.merge
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, r"answered 430 .*Another live client holds this node of the group, for example a second query"),
        ({"sourceCount": "3"}, r"answered 429 .*Live clients of this group use a different sourceCount"),
    ],
)
def test_a_second_query_of_a_group(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    feed.send(10)
    first, second = Batches(), Batches()
    with running(stream(delta_spark, feed.options(startingOffsets="earliest")), tmp_path / "1", first) as query:
        wait_for(lambda: len(first.all) == 10, "the first query's batch")
        with pytest.raises(Exception, match=message):
            run_available(stream(delta_spark, feed.options(**change)), tmp_path / "2", second)
        feed.send(10)
        wait_for(lambda: len(first.all) == 20, "the first query to go on")
        assert query.exception() is None
    assert second.runs == 0


@pytest.mark.merge
def test_secrets_are_in_no_plan_and_no_progress(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(10)
    options = feed.options(startingOffsets="earliest", offsetsTable=tmp_path / "offsets")
    secrets = {f"storageOption.{name}": SECRET for name in ("secret_key", "azure_storage_account_key", "sas")}
    frame = stream(delta_spark, {**options, **secrets})
    sink = Batches()
    with running(frame, tmp_path / "checkpoint", sink) as query:
        wait_for_rows(query, sink, 10, "a batch")
        wait_for(lambda: query.recentProgress, "its progress")
        explained = query._jsq.explainInternal(True) + frame._jdf.queryExecution().toString()
        assert "tubeclient" in explained.lower() or "PythonStreaming" in explained
        shown = explained + str(query.recentProgress) + str(query.status)
    shown += "".join(
        path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()
    )
    assert SECRET not in shown


@pytest.fixture
def own_feed(tmp_path: Path) -> Iterator[Feed]:
    """A topic on a cluster of this test alone, whose faults are nobody else's."""
    with EmbeddedTubeMQ(tmp_path / "tube") as tube:
        yield Feed.create(tube, "damaged", stores=1, partitions=1)


@pytest.mark.merge
def test_corrupted_frame(delta_spark: SparkSession, own_feed: Feed, tmp_path: Path) -> None:
    """The task requests a corrupted frame again and names its range if that never helps."""
    faults = own_feed.tube.broker_faults()
    options = own_feed.options(startingOffsets="earliest", retryLimit="3s")
    own_feed.send(10)
    faults.break_connection(Method.GET_MESSAGES, ConnectionFault.CORRUPT_FRAME)
    sink = Batches()
    run_available(stream(delta_spark, options), tmp_path / "1", sink)
    assert sink.all == own_feed.sent
    for _ in range(100):
        faults.break_connection(Method.GET_MESSAGES, ConnectionFault.CORRUPT_FRAME)
    own_feed.wait_until_free()
    message = r"no progress .* 1:damaged:0\[0, 280\) at 0 from .*begin token 0x00000000.*retry limit"
    with pytest.raises(Exception, match=message):
        run_available(stream(delta_spark, options), tmp_path / "2", sink)


@pytest.mark.merge
def test_wrong_checksum_fails_the_query(delta_spark: SparkSession, own_feed: Feed, tmp_path: Path) -> None:
    """A query fails at a message with a wrong checksum and names its offsets."""
    faults = own_feed.tube.broker_faults()
    own_feed.send(10)
    faults.corrupt_checksums = 1_000
    with pytest.raises(Exception, match=r"1:damaged:0, offsets \[0, 28\): the message .* checksum.* from offset 28 "):
        run_available(stream(delta_spark, own_feed.options(startingOffsets="earliest")), tmp_path / "1", Batches())


@pytest.mark.merge
def test_wrong_checksum_row_is_stable(delta_spark: SparkSession, own_feed: Feed, tmp_path: Path) -> None:
    """A message with a wrong checksum is the same row in every read if it is kept."""
    own_feed.send(200)
    victims = [20, 21, 150]
    for number in victims:
        own_feed.tube.damage(own_feed.topic, number * 28)
    options = own_feed.options(startingOffsets="earliest", badMessages="keep")
    columns = ["partitionKey", "offset", "messageId", "value", "badReason"]
    whole = batch(delta_spark, options).select(columns).orderBy("offset").collect()
    assert [row.offset for row in whole] == [number * 28 for number in range(200)]
    assert [row.offset // 28 for row in whole if row.badReason is not None] == victims
    assert all("checksum" in row.badReason for row in whole if row.badReason is not None)
    damaged = [bytes(row.value) != sent for row, sent in zip(whole, own_feed.sent, strict=True)]
    assert [number for number, one in enumerate(damaged) if one] == victims
    seen: list[Row] = []

    def keep(frame: DataFrame, _: int) -> None:
        seen.extend(frame.select(columns).collect())
        seen.extend(frame.select(columns).collect())  # a replay

    takeover = {"sourceCount": "2", "backlogTakeover": "true", "backlogTakeoverMinRows": "5"}
    options |= {"maxOffsetsPerTrigger": "70", **takeover}
    run_available(stream(delta_spark, options), tmp_path / "1", keep)
    assert sorted(seen, key=lambda row: row.offset) == [row for one in whole for row in (one, one)]
