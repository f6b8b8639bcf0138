"""Filters that Spark pushes to batch reads: fewer rows are read, and the result is as without."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from spark_source.session_confs import session_confs
from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
BEGAN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTES, EACH = 20, 10
ALL = MINUTES * EACH
NEAR = range(MINUTES * EACH // 2)
"""As many rows as are read for some minutes: a place is looked for as long as that costs less than to read."""


@pytest.fixture(autouse=True)
def offered(delta_spark: SparkSession) -> Iterator[None]:
    """Spark offers filters."""
    with session_confs(delta_spark, {PUSHDOWN: "true"}):
        yield


@pytest.fixture
def minutes(plain_feed: Feed) -> Feed:
    """Messages of twenty minutes in two stores, ten of each minute; the tag is a or b. A fetch has few of them."""
    plain_feed.label = "m" * 50_000
    for minute in range(MINUTES):
        time = f"{BEGAN + timedelta(minutes=minute):%Y%m%d%H%M}"
        plain_feed.send(EACH, tags=["a", "a", "b", "b"], time=time)
    return plain_feed


def read_rows(frame: DataFrame) -> int:
    """How many rows the source gave to Spark for the last action."""
    leaves: Any = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(leaves.apply(at).metrics().apply("numOutputRows").value() for at in range(leaves.size()))


@pytest.mark.parametrize(
    ("where", "read", "result", "shown"),
    [
        ("partition = 10000", ALL // 2, ALL // 2, "EqualTo(partition,10000)]"),
        ("topic IN ('other', 'another')", 0, 0, "In(topic"),
        ("partitionKey LIKE '1:%' AND brokerId > 1", 0, 0, "GreaterThan(brokerId,1)"),
        ("offset >= 28 * 90 AND partition = 0", 10, 10, None),
        ("offset = 28 * 7 + 1", 0, 0, None),
        ("offset IS NULL", ALL, 0, None),
        ("messageTime >= '2026-11-21 10:05:00' AND messageTime < '2026-11-21 10:07:00'", NEAR, 20, None),
        ("messageTime = '2026-11-21 10:05:30'", NEAR, 0, None),
        ("messageType = 'b' AND messageTime > '2026-11-21 10:18:00'", NEAR, 4, None),
        ("messageType = 'b' OR partition = 0", ALL, None, None),
    ],
)
def test_the_result_is_as_without(
    delta_spark: SparkSession,
    minutes: Feed,
    capsys: pytest.CaptureFixture[str],
    where: str,
    read: int | range,
    result: int | None,
    shown: str | None,
) -> None:
    found = {}
    for enabled in ("true", "false"):
        frame = batch(delta_spark, minutes.options(pushFilters=enabled, messageTimeDisorder="0s")).where(where)
        found[enabled] = sorted(bytes(row.value) for row in frame.collect())
        if enabled == "true":
            frame.explain("formatted")
        wanted = read if enabled == "true" else ALL
        assert read_rows(frame) in (wanted if isinstance(wanted, range) else [wanted])
    assert shown is None or shown in capsys.readouterr().out
    assert found["true"] == found["false"]
    assert result in (None, len(found["true"]))


def test_brokers_leave_out_other_tags_where_no_offset_is_asked_for(delta_spark: SparkSession, minutes: Feed) -> None:
    for columns, read in (("value, messageType", ALL * 2 // 5), ("value, messageType, offset", ALL)):
        frame = batch(delta_spark, minutes.options(pushFilters="true", columns=columns)).where("messageType = 'b'")
        assert len(frame.collect()) == ALL * 2 // 5
        assert read_rows(frame) == read


def test_tags_with_blanks_are_told_from_others(delta_spark: SparkSession, plain_feed: Feed) -> None:
    plain_feed.send(30, tags=["b", "b ", "c"])
    frame = batch(delta_spark, plain_feed.options(pushFilters="true", columns="messageType"))
    assert [
        row.messageType for row in frame.where("messageType IN ('b ', 'c')").distinct().orderBy("messageType").collect()
    ] == ["b ", "c"]


def test_an_unknown_disorder_reads_all(delta_spark: SparkSession, minutes: Feed) -> None:
    frame = batch(delta_spark, minutes.options(pushFilters="true")).where("messageTime = '2026-11-21 10:05:00'")
    assert len(frame.collect()) == EACH
    assert read_rows(frame) == ALL


def test_a_read_may_be_used_with_several_filters_and_none(delta_spark: SparkSession, minutes: Feed) -> None:
    """Spark 4.1 and 4.2 give what one filter left to all uses of a loaded DataFrame."""
    frame = batch(delta_spark, minutes.options())
    both = frame.where("partition = 0").union(frame.where("partition = 10000 AND messageType = 'a'"))
    assert [row["count"] for row in both.groupBy("partition").count().orderBy("partition").collect()] == [
        ALL // 2,
        sum(1 for row in frame.collect() if row.partition == 10000 and row.messageType == "a"),
    ]
    assert frame.count() == ALL


def test_spark_says_which_setting_it_needs(delta_spark: SparkSession, minutes: Feed) -> None:
    with (
        session_confs(delta_spark, {PUSHDOWN: "false"}),
        pytest.raises(PySparkException, match=rf"DATA_SOURCE_PUSHDOWN_DISABLED.*{PUSHDOWN}"),
    ):
        batch(delta_spark, minutes.options(pushFilters="true")).where("partition = 0").collect()
