"""One broker of two is down or away, with real servers and both ways of asking them; Spark's part is done by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.spark_source.by_hand import Query
from tests.waiting import wait_for
from tubeclient.errors import DataLoss
from tubeclient.wire.payload import encode_payload


def send(tube: EmbeddedTubeMQ, topic: str, broker_id: int, label: str) -> list[bytes]:
    bodies = [f"{topic}-{broker_id}-{label}-{number}".encode() for number in range(5)]
    messages = [NewMessage(number % 2, *encode_payload(body, "")) for number, body in enumerate(bodies)]
    tube.load(topic, messages, broker_id=broker_id)
    return bodies


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("t", partitions=2)], brokers=2) as running:
        yield running


@pytest.mark.parametrize("web", [True, False])
def test_start_without_one_broker(tube: EmbeddedTubeMQ, web: bool) -> None:
    """A query starts twice without one broker and reads that broker once it is back."""
    before = send(tube, "t", 1, "before") + send(tube, "t", 2, "before")
    tube.stop_broker(2, clean=web)
    query = Query(tube, subscribe="t", startingOffsets="earliest", **({} if web else {"masterWebPort": 1}))
    expected = before[:5]
    with query.run() as one:
        query.batch(one)
        expected += send(tube, "t", 1, "first run")
        query.until(one, len(expected))
    with query.run() as one:
        expected += send(tube, "t", 1, "second run")
        query.until(one, len(expected))
        assert "2:t:0" not in query.batch(one)
        tube.start_broker(2)
        at_end = {"0-1": 5 * 28}
        wait_for(lambda: query.batch(one).get("2:t:0") == at_end, "the other broker's partitions")
        expected += before[5:]
        expected += send(tube, "t", 2, "second run")
        query.until(one, len(expected))
    assert sorted(query.rows) == sorted(expected)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_new_checkpoints_with_a_broker_away(tube: EmbeddedTubeMQ, tmp_path: Path, fail: str) -> None:
    """New checkpoints from the table read each message once if a broker was away meanwhile."""
    expected = send(tube, "t", 1, "a") + send(tube, "t", 2, "a")
    rows: list[bytes] = []

    def run(accepts: str) -> None:
        query = Query(
            tube,
            subscribe="t",
            startingOffsets="group:earliest",
            offsetsTable=tmp_path / "offsets",
            failOnDataLoss=accepts,
        )
        with query.run() as one:
            one.freeze_end()
            while (at := query.checkpoint) != query.batch(one):
                assert at is not None
        rows.extend(query.rows)

    run("true")
    tube.remove_broker(2)
    expected += send(tube, "t", 1, "b")
    if fail == "true":
        with pytest.raises(DataLoss, match=r"no topic t on broker 2, .* Start again when the broker is back"):
            run("true")
    else:
        run("false")
        assert sorted(rows) == sorted(expected)
    assert tube.add_broker() == 2
    expected += send(tube, "t", 2, "c")
    run("true")
    assert sorted(rows) == sorted(expected)
