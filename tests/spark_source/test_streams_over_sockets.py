"""InLong streams of topics that a pattern finds, with real servers; Spark's part is done by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.spark_source.by_hand import Query
from tests.waiting import wait_for
from tubeclient.errors import NodeIdConflict
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.wire.payload import encode_attributes, encode_payload, java_string_hash


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("t")]) as running:
        yield running


def send(tube: EmbeddedTubeMQ, topic: str, stream_id: str, *, tag: str | None = None) -> list[bytes]:
    """A pack of a stream, as DataProxy sends it; returns its records."""
    bodies = [f"{topic}-{stream_id}-{tag}-{number}".encode() for number in range(5)]
    pack = encode_pack([RecordGroup({"groupId": "g", "streamId": stream_id, "dt": "1"}, bodies)], made_ms=5)
    tag = tag or stream_id
    payload, flag = encode_payload(pack, encode_attributes({"msgEnType": "2"}, tag, "202401020304"))
    tube.load(topic, [NewMessage(0, payload, flag, java_string_hash(tag))])
    return bodies


def query(tube: EmbeddedTubeMQ, **more: str) -> Query:
    return Query(tube, subscribePattern="t.?", startingOffsets="earliest", payload="inlong", streams="a,b", **more)


def test_streams_of_a_topic_that_is_found_later_are_read_exactly(tube: EmbeddedTubeMQ) -> None:
    """Also by a group that may read no other streams of it."""
    reads = query(tube)
    expected = send(tube, "t", "a")
    send(tube, "t", "c")
    with reads.run() as one:
        reads.until(one, 5)
        tube.create_topic(TopicConfig("tt", allowed_tags={"pair": frozenset({"a", "b"})}))
        for stream_id in ("a", "b", "c"):
            sent = send(tube, "tt", stream_id)
            expected += sent if stream_id != "c" else []
        # The broker lets it through by its tag, or by a tag of the same hash.
        send(tube, "tt", "c", tag="a")
        reads.until(one, 15)
        expected += send(tube, "tt", "a")
        reads.until(one, 20)
    assert sorted(reads.rows) == sorted(expected)


def test_a_new_run_waits_for_the_nodes_of_a_dead_one_that_found_a_topic_later(tube: EmbeddedTubeMQ) -> None:
    """The group's streams are the same whenever a topic was found."""
    old, new = query(tube), query(tube, groupJoinTimeout="1s")
    with old.run() as dead:
        tube.create_topic(TopicConfig("tt"))
        wait_for(lambda: "1:tt:0" in old.batch(dead), "the new topic")
        with pytest.raises(NodeIdConflict), new.run() as one:
            new.batch(one)
