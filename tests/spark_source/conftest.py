"""One embedded TubeMQ for all Spark tests of this folder; each test creates its own topics and groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.spark_source.fake_storage import FakeStorage
from tests.spark_source.feed import Feed

_numbers = itertools.count()


@pytest.fixture(scope="session")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube")) as running:
        yield running


@pytest.fixture
def feed(tube: EmbeddedTubeMQ) -> Feed:
    """A new topic of two stores with two partitions each."""
    return Feed.create(tube, f"topic{next(_numbers)}", stores=2, partitions=2)


@pytest.fixture
def plain_feed(tube: EmbeddedTubeMQ) -> Feed:
    """A new topic of two stores with one partition each: messages' offsets are known."""
    return Feed.create(tube, f"plain{next(_numbers)}", stores=2, partitions=1)


@pytest.fixture
def storage() -> Iterator[FakeStorage]:
    """An offsets table in memory; what hangs in it ends with the test."""
    made = FakeStorage()
    with made.hangs():
        yield made
