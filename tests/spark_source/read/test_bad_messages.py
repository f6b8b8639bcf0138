"""Each kind of bad message, on the embedded servers: a row with all that is known of it, or one error that names it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from spark_source.options.given import parse_options
from spark_source.stream.batch_reader import TubeBatchReader
from tests.spark_source.read.test_task_read import rows
from tests.tubeclient.inlong.packs import OwnRecord, encode_message_objs
from tubeclient import CorruptMessage
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.wire.payload import encode_attributes, encode_payload

ATTRIBUTES = {"groupId": "g", "streamId": "s", "dt": "1700000000123"}
PACK = encode_pack([RecordGroup(ATTRIBUTES, [b"one", b"two"])], made_ms=1)
PLAIN_PACK = encode_pack([RecordGroup(ATTRIBUTES, [b"one", b"two"])], made_ms=1, snappy=False)
OBJECTS = encode_message_objs([OwnRecord(b"three", {})], [1_700_000_000_123], "none")
OBJECTS_SAY = {"version": "1", "inlongGroupId": "g", "inlongStreamId": "s"}
BAD_AT = 5
MESSAGES = 12


class Bad(NamedTuple):
    """A bad message: what was sent, and whether the broker's disk changed a byte of it."""

    payload: bytes
    flag: int
    reason: str
    damage: int | None = None
    kinds: tuple[str, ...] = ("raw", "inlong", "auto")
    """Values of the option `payload` with which it is bad."""


def attached(body: bytes, **attributes: str) -> tuple[bytes, int]:
    return encode_payload(body, encode_attributes(attributes, "s", "202401020304"))


IN_PACKS = ("inlong", "auto")
KINDS = {
    "a damaged body": Bad(*attached(PACK), "the checksum is wrong", -10),
    "a damaged length of the attributes": Bad(*attached(PACK), "the checksum is wrong", 0),
    "attributes that are not UTF-8": Bad(b"\0\0\0\x02\xff\xfe" + PACK, 1, "attributes that are not UTF-8"),
    "attributes longer than the payload": Bad(b"\0\0\0\x63k=v", 1, "attributes of 99 bytes in a payload of 7"),
    "nothing where attributes should be": Bad(b"", 1, "should start with the length of its attributes"),
    "no pack": Bad(*attached(b"plain text"), "not an InLong pack", None, ("inlong",)),
    "nothing": Bad(b"", 0, "not an InLong pack", None, ("inlong",)),
    "a pack that is cut off": Bad(*attached(PLAIN_PACK[:-9] + PLAIN_PACK[-2:]), "at byte", None, IN_PACKS),
    "a pack with a damaged record": Bad(
        *attached(PACK[:-12] + b"\xff" * 10 + PACK[-2:]), "has a record of 4294967295 bytes", None, IN_PACKS
    ),
    "objects that are cut off": Bad(
        *attached(OBJECTS[:-3], msgEnType="1", **OBJECTS_SAY), "the protobuf pack", None, IN_PACKS
    ),
    "an unknown compression": Bad(
        *attached(OBJECTS, msgEnType="1", compressType="LZ9", **OBJECTS_SAY),
        "names an unknown compression",
        None,
        IN_PACKS,
    ),
}
CASES = [pytest.param(bad, kind, id=f"{name}, {kind}") for name, bad in KINDS.items() for kind in bad.kinds]


@pytest.fixture
def spoilt(tube: EmbeddedTubeMQ, request: pytest.FixtureRequest) -> Callable[[Bad], tuple[str, bytes]]:
    """Sends good messages with a bad one among them. Returns the topic, and the bad one's payload as it is stored."""

    def load(bad: Bad) -> tuple[str, bytes]:
        topic = "bad_" + re.sub(r"\W+", "_", request.node.name)[-50:]
        tube.create_topic(TopicConfig(topic, 1, 1))
        messages = [NewMessage(0, *attached(PACK)) for _ in range(MESSAGES)]
        messages[BAD_AT] = NewMessage(0, bad.payload, bad.flag)
        tube.load(topic, messages)
        stored = bytearray(bad.payload)
        if bad.damage is not None:
            tube.damage(topic, BAD_AT * 28, byte=bad.damage)
            stored[bad.damage] ^= 0xFF
        return topic, bytes(stored)

    return load


@pytest.mark.parametrize(("bad", "kind"), CASES)
def test_it_is_a_row_where_bad_messages_are_kept(
    tube: EmbeddedTubeMQ, spoilt: Callable[[Bad], tuple[str, bytes]], bad: Bad, kind: str
) -> None:
    topic, stored = spoilt(bad)

    def read(start: int = 0, end: int = MESSAGES) -> list[dict[str, Any]]:
        columns = "*, attributes" if kind == "raw" else "*, attributes, recordAttributes"
        more: dict[str, Any] = {"payload": kind, "badMessages": "keep", "columns": columns}
        found = rows(tube, topic, end, begin=start, **more)
        return sorted(found, key=lambda row: (row["offset"], row.get("recordIndex") or 0))

    whole = read()
    [kept] = [row for row in whole if row["badReason"] is not None]
    assert bad.reason in kept["badReason"]
    known = (kept["offset"], kept["topic"], kept["partitionKey"], kept["brokerId"], kept["partition"])
    assert known == (BAD_AT * 28, topic, f"1:{topic}:0", 1, 0)
    assert kept["messageId"] not in {row["messageId"] for row in whole if row is not kept}
    if kept["messageType"] is None:  # of its payload nothing is known
        assert kept["value"] == stored
        assert (kept["messageTime"], kept["attributes"] or []) == (None, [])
    else:
        assert stored.endswith(kept["value"])
        assert bad.damage is None
    assert [kept.get(name) for name in ("inlongGroupId", "inlongStreamId", "dataTime", "recordIndex")] == [None] * 4
    good = 1 if kind == "raw" else 2
    assert len(whole) == (MESSAGES - 1) * good + 1
    sliced = [row for start in range(0, MESSAGES, 4) for row in read(start, start + 4)]
    assert sliced == whole
    assert read(BAD_AT, BAD_AT + 1) == [kept]


@pytest.mark.parametrize(("bad", "kind"), CASES)
def test_it_ends_the_read_with_its_place_otherwise(
    tube: EmbeddedTubeMQ, spoilt: Callable[[Bad], tuple[str, bytes]], bad: Bad, kind: str
) -> None:
    topic, _ = spoilt(bad)
    with pytest.raises(CorruptMessage) as caught:
        rows(tube, topic, MESSAGES, payload=kind)
    told = str(caught.value)
    start, end = BAD_AT * 28, (BAD_AT + 1) * 28
    assert told.startswith(f"partition 1:{topic}:0, offsets [{start}, {end}): ")
    assert ("does not match its checksum" if bad.damage is not None else bad.reason) in told
    assert f"up to offset {start} " in told
    assert f"from offset {end} " in told
    assert told.endswith("With badMessages=keep the message is a row, with the reason")
    around = rows(tube, topic, BAD_AT, payload=kind) + rows(tube, topic, MESSAGES, begin=BAD_AT + 1, payload=kind)
    assert {row["offset"] for row in around} == {n * 28 for n in range(MESSAGES) if n != BAD_AT}


@pytest.mark.parametrize("choice", ["keep", "fail"])
def test_a_search_by_time_ends_at_a_damaged_message(tube: EmbeddedTubeMQ, choice: str) -> None:
    """Its own time is not known."""
    topic = f"bad_at_a_time_{choice}"
    tube.create_topic(TopicConfig(topic, 1, 1))
    for minute in ("202401020303", "202401020304"):
        payload, flag = encode_payload(b"body", encode_attributes({}, "s", minute))
        tube.load(topic, [NewMessage(0, payload, flag)] * 3)
    for number in (0, 2, 3, 5):
        tube.damage(topic, number * 28)
    given = {"masterServers": tube.master_address, "masterWebPort": str(tube.master_web_port)}
    given |= {"consumerGroup": "bad_at_a_time", "subscribe": topic}
    reader = TubeBatchReader(
        parse_options({**given, "startingTimestamp": str(1_704_164_640_000), "badMessages": choice})
    )
    with pytest.raises(CorruptMessage, match=f"looking for a time in partition 1:{topic}:0: .* checksum"):
        reader.partitions()
