"""A delivery's messages with their records: all of them, in order, and bad ones by the user's choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.inlong.packs import GROUPS, Group
from tubeclient import CorruptMessage, PartitionKey
from tubeclient.flows.message_pack import Delivery
from tubeclient.inlong import Limits, RecordDecoder, RecordGroup, encode_pack, records_of
from tubeclient.wire.messages import Columns
from tubeclient.wire.payload import encode_attributes, encode_payload

ATTRIBUTES = {"groupId": "g", "streamId": "s", "dt": "1700000000123"}
KEY = PartitionKey(1, "clicks", 0)


def pack(*bodies: bytes) -> bytes:
    return encode_pack([RecordGroup(ATTRIBUTES, bodies)], made_ms=1)


def delivery(bodies: Sequence[bytes], damaged: dict[int, str] | None = None, **attributes: str) -> Delivery:
    sent = [encode_payload(body, encode_attributes(attributes)) for body in bodies]
    payloads, flags = [payload for payload, _ in sent], [flag for _, flag in sent]
    columns = Columns([100 + number for number in range(len(sent))], payloads, flags)
    return Delivery(1, KEY, 0, 28 * len(sent), 0, columns, damaged)


@given(st.lists(GROUPS, max_size=6))
def test_records_of_each_message(messages: list[list[Group]]) -> None:
    """Each message in a delivery gives the same records as its pack alone."""
    packs = [
        encode_pack([RecordGroup(group.attributes, group.bodies) for group in groups], made_ms=5) for groups in messages
    ]
    found = list(delivery(packs, k="v").records())
    assert [message.message_id for message, _ in found] == [100 + number for number in range(len(packs))]
    assert [message.attributes for message, _ in found] == [{"k": "v"}] * len(packs)
    assert [records for _, records in found] == [records_of(one, {"k": "v"}) for one in packs]


BAD = [pack(b"a"), b"no pack", pack(), b"\0\0\0\x63k=v", pack(b"b", b"c"), pack(), b"\x0f\x01\x0f\x01"]


def test_bad_messages_in_place() -> None:
    """A bad message comes in its place with its reason, body, and attributes if it is let through."""
    known: dict[str, Any] = {"groupId": "x"}
    found = list(delivery(BAD, {3: "damaged"}, **known).records())
    assert [[one.body for one in records] for _, records in found] == [[b"a"], [], [], [], [b"b", b"c"], [], []]
    reasons = [message.bad_reason for message, _ in found]
    assert [number for number, reason in enumerate(reasons) if reason] == [1, 3, 6]
    assert "not an InLong pack" in str(reasons[1])
    assert reasons[3] == "damaged"
    assert "head is cut off" in str(reasons[6])
    assert found[1][0].body == b"no pack"
    assert found[1][0].attributes == known


def test_bad_message_is_an_error() -> None:
    """A bad message raises CorruptMessage, which names it, unless bad ones are let through."""
    found = delivery(BAD).records()
    told = (
        r"partition 1:clicks:0, in the pack from offset 0 on, the message with id 101: "
        r".* not an InLong pack.*\. Set bad"
    )
    with pytest.raises(CorruptMessage, match=told) as caught:
        list(found)
    assert caught.value.number == 1
    columns = Columns([6], [b"\0\0\0\x63k=v"], [1])
    with pytest.raises(
        CorruptMessage,
        match=r"from offset 28 on, the message with id 6: attributes of 99 bytes in a payload of 7\. Set bad_",
    ):
        list(Delivery(1, KEY, 28, 56, 0, columns).records())


def test_the_decoders_limits_and_wrappings_count() -> None:
    plain = delivery([b"plain", pack(b"x", b"y")], {})
    assert [len(records) for _, records in plain.records(RecordDecoder("auto"))] == [1, 2]
    [(message, records)] = delivery([pack(b"x", b"y")], {}).records(RecordDecoder(limits=Limits(max_records=1)))
    assert (records, "too many records" in str(message.bad_reason)) == ([], True)
