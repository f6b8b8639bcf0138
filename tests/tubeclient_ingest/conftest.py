"""Shared fixtures of the ingest job's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.bench import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bench(tmp_path: Path, delta_spark: SparkSession) -> Iterator[Bench]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", 2, 1)]) as tube:
        yield Bench(tube, delta_spark, tmp_path)


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    """Fifty messages in one partition, for a job in a process of its own."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as running:
        running.load("clicks", [NewMessage(0, str(n).encode()) for n in range(50)])
        yield running
