"""Reads that begin and end by time, on a real Spark and an embedded TubeMQ."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.merge]

MINUTES = ("202403100858", "202403100859", "202403100900", "202403101200")
"""As producers in Shanghai wrote them."""


def ms(minute: str, zone: str = "Asia/Shanghai", seconds: int = 0) -> int:
    moment = datetime.strptime(minute, "%Y%m%d%H%M").replace(tzinfo=ZoneInfo(zone))
    return int(moment.timestamp() + seconds) * 1000


@pytest.fixture
def sent(feed: Feed) -> dict[str, list[bytes]]:
    """100 messages of each minute, in all partitions."""
    return {minute: feed.send(100, time=minute) for minute in MINUTES}


def bodies(spark: SparkSession, feed: Feed, **more: object) -> list[bytes]:
    rows = batch(spark, feed.options("", messageTimeZone="Asia/Shanghai", **more)).select("value").collect()
    return sorted(bytes(row.value) for row in rows)


def test_batches_between_times_have_each_message_once(
    delta_spark: SparkSession, feed: Feed, sent: dict[str, list[bytes]]
) -> None:
    cuts = [ms(MINUTES[0]), ms(MINUTES[1], seconds=59), ms(MINUTES[2]), ms(MINUTES[3], seconds=600)]
    found = [
        bodies(delta_spark, feed, startingTimestamp=start, endingTimestamp=end)
        for start, end in itertools.pairwise(cuts)
    ]
    assert found == [sent[MINUTES[0]], sent[MINUTES[1]], sent[MINUTES[2]] + sent[MINUTES[3]]]
    # The same hands of the clock eight hours later: nothing is left.
    assert bodies(delta_spark, feed, startingTimestamp=ms(MINUTES[3], "UTC")) == []
