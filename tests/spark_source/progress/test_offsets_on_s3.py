"""A query that keeps its offsets table in an object store, with the store's options among the source's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from offsets_store import GroupKey, OffsetsTable
from tests.offsets_store.s3_server import BUCKET, s3_server
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_query_keeps_its_table_on_s3_and_goes_on_from_it(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    uri = f"s3://{BUCKET}/_offsets/tubemq"
    first = feed.send(60)
    with s3_server() as server:
        storage = {f"storageOption.{name}": value for name, value in server.options.items()}
        options = {**feed.options(startingOffsets="group:earliest", offsetsTable=uri), **storage}
        sink = Batches()
        run_available(stream(delta_spark, options), tmp_path / "checkpoint", sink)
        assert sorted(sink.all) == sorted(first)
        kept = OffsetsTable(uri, server.options).latest(GroupKey(options["consumerGroup"], [feed.topic]))
        assert kept is not None
        assert kept.rows_behind == 0
        more = feed.send(40)
        feed.wait_until_free()
        sink = Batches()
        run_available(stream(delta_spark, options), tmp_path / "another-checkpoint", sink)
        assert sorted(sink.all) == sorted(more)
