"""How long a task waits for a topic that it cannot write: not at all where the cluster has no such topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from spark_source.options import parse_given
from spark_source.sink_options import write_options
from spark_source.task_write import _publish
from tubeclient import ConfigurationError, PartitionUnavailable


class Unwritable:
    """A producer that the master lists no partition for."""

    topics: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.waits_ms: list[float] = []

    def publish(self, topics: set[str], *, timeout_ms: float) -> None:
        self.waits_ms.append(timeout_ms)
        raise PartitionUnavailable("nothing to write to", code=423)


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [TopicConfig("there")]) as running:
        yield running


def publish(tube: EmbeddedTubeMQ, producer: Any, topic: str, web_port: int) -> None:
    options = {"masterservers": tube.master_address, "masterwebport": str(web_port), "topic": topic}
    _publish(producer, {topic}, write_options(parse_given(options)))


def test_a_topic_that_the_cluster_does_not_have_is_told_without_a_second_wait(tube: EmbeddedTubeMQ) -> None:
    producer = Unwritable()
    with pytest.raises(ConfigurationError, match="the cluster has no topic nosuch; check the spelling"):
        publish(tube, producer, "nosuch", tube.master_web_port)
    assert producer.waits_ms == [1_000]


@pytest.mark.parametrize("known", [True, False])  # that it is not there, without a web port to ask
def test_any_other_topic_is_waited_for(tube: EmbeddedTubeMQ, known: bool) -> None:
    producer = Unwritable()
    with pytest.raises(PartitionUnavailable):
        publish(tube, producer, "there" if known else "nosuch", tube.master_web_port if known else 1)
    assert producer.waits_ms == [1_000, 9_000]
