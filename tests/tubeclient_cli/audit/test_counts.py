"""A counts table as Spark writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tubeclient_cli.audit.counts import read_counts
from tubeclient_cli.audit.verdicts import HOUR, Hour

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def test_what_spark_wrote_is_read_by_hours_of_utc(delta_spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/lake/_counts"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (inlongGroupId STRING, inlongStreamId STRING, minute TIMESTAMP, received BIGINT,"
        " written BIGINT, bad BIGINT, sequence BIGINT, runId STRING, time TIMESTAMP) USING DELTA"
    )
    delta_spark.sql(f"""
        INSERT INTO delta.`{path}` VALUES
        ('shop', 'clicks', TIMESTAMP '2026-11-21T10:59:00Z', 5, 4, 1, 1, 'r', TIMESTAMP '2026-11-21T11:01:00Z'),
        ('shop', 'clicks', TIMESTAMP '2026-11-21T10:00:00Z', 3, 3, 0, 2, 'r', TIMESTAMP '2026-11-21T11:02:00Z'),
        ('shop', 'clicks', TIMESTAMP '2026-11-21T11:00:00Z', 1, 1, 0, 2, 'r', TIMESTAMP '2026-11-21T11:02:00Z'),
        ('shop', 'clicks', TIMESTAMP '2030-01-01T00:00:00Z', 1, 1, 0, 2, 'r', TIMESTAMP '2026-11-21T11:02:00Z'),
        ('shop', NULL, NULL, 2, 0, 2, 2, 'r', TIMESTAMP '2026-11-21T11:02:00Z'),
        ('other', 'x', TIMESTAMP '2026-11-21T15:00:00Z', 9, 9, 0, 1, 's', TIMESTAMP '2026-11-21T15:01:00Z')""")
    found = read_counts(path, {}, "shop", None, TEN, TEN + HOUR)
    assert set(found.hours) == {Hour("clicks", TEN, 8, 7, 1), Hour(None, None, 2, 0, 2)}
    assert found.streams == ["clicks"]
    assert found.first_round_to == TEN.replace(minute=59)
    assert found.newest == TEN + HOUR  # and not 2030, which no clock had reached
