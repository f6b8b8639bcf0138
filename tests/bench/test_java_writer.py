"""All sides of the writing measurements send the same. How fast that was is no matter here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.java_writer import JavaWriter
from bench.our_writing import write_many, write_one_by_one
from bench.writing import _check, _count
from bench.written import ATTRIBUTES, TAG, TIME, WriteError, Written, bodies
from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tubeclient import ClientBalanceConsumer, ClientSettings

pytestmark = pytest.mark.apache

TOPIC = "written"
MESSAGES, BODY_BYTES = 1_000, 100


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[ClientSettings]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig(TOPIC, 1, 2)]) as tube:
        yield ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)


def read(settings: ClientSettings, count: int) -> Iterator[tuple[object, ...]]:
    left = count
    with ClientBalanceConsumer(settings, "reader", [TOPIC], start_from="earliest") as consumer:
        for key in consumer.partitions():
            consumer.connect(key)
        while left > 0:
            delivery = consumer.get(timeout_ms=10_000)
            assert delivery is not None
            for one in delivery:
                yield one.body, one.tag, one.time, tuple(one.attributes.items())
            left -= len(delivery)
            consumer.confirm(delivery)


def test_each_side_sends_the_same_messages(settings: ClientSettings, tmp_path: Path) -> None:
    with JavaWriter(settings.master_servers[0], TOPIC, tmp_path / "java") as java:
        done = java.write(MESSAGES, BODY_BYTES)
    assert (done.messages, done.acknowledged, _count(settings)) == (MESSAGES, MESSAGES, MESSAGES)
    for write in (write_many, write_one_by_one):
        _check(settings, _count(settings), write(settings, TOPIC, MESSAGES, BODY_BYTES))
    wanted = {(body, TAG, TIME, tuple(ATTRIBUTES.items())): 3 for body in bodies(MESSAGES, BODY_BYTES)}
    assert Counter(read(settings, 3 * MESSAGES)) == wanted


def test_a_refused_message_and_one_that_is_missing_fail_a_side(
    settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WriteError, match="1 of 2 messages were acknowledged"):
        _check(settings, 0, Written(2, 1, 1.0, 1.0))
    monkeypatch.setattr("bench.writing._BOOKS_SECONDS", 0.2)
    with pytest.raises(WriteError, match="the broker has 0 of 2 messages"):
        _check(settings, 0, Written(2, 2, 1.0, 1.0))
