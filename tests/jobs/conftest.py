"""What the tests of the ingest job share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.jobs.bench import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bench(tmp_path: Path, delta_spark: SparkSession) -> Iterator[Bench]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", 2, 1)]) as tube:
        yield Bench(tube, delta_spark, tmp_path)
