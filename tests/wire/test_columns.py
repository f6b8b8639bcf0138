"""Messages by column: the same bytes as messages by row, every checksum looked at, nothing shifted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ
from tubeclient.errors import CorruptMessage
from tubeclient.wire.envelope import parse_message, varint
from tubeclient.wire.messages import Arrived, Columns, bad_attributes, checked_columns, unchecked_columns
from tubeclient.wire.payload import checksum, encode_attributes, encode_payload
from tubeclient.wire.proto.broker_pb2 import GetMessageResponseB2C, TransferedMessage

numbers = st.integers(-(1 << 63), (1 << 63) - 1)
rows = st.lists(st.tuples(numbers, st.binary(max_size=200), st.integers(-(1 << 31), (1 << 31) - 1)), max_size=20)


def transfered(number: int, payload: bytes, flag: int = 0) -> TransferedMessage:
    return TransferedMessage(messageId=number, checkSum=checksum(payload), payLoadData=payload, flag=flag)


def wire(*messages: TransferedMessage) -> Arrived:
    response = GetMessageResponseB2C(success=True, errCode=200, messages=messages, currOffset=28)
    return arrived(response.SerializeToString())


def arrived(answer: bytes) -> Arrived:
    """By the plain code; tests/tubeclient_core compares the core with it."""
    return Arrived(parse_message(GetMessageResponseB2C, answer).messages)


def columns(*messages: TransferedMessage) -> Columns:
    return checked_columns(wire(*messages))


def tagged(number: int, body: bytes, tag: str) -> TransferedMessage:
    return transfered(number, *encode_payload(body, encode_attributes({}, tag)))


@given(rows)
@FUZZ
def test_columns_hold_what_the_rows_held(messages: list[tuple[int, bytes, int]]) -> None:
    found = columns(*(transfered(*message) for message in messages))
    assert list(zip(*found, strict=True)) == messages


@pytest.mark.parametrize("damaged", range(3))
def test_a_wrong_checksum_is_found_wherever_it_is(damaged: int) -> None:
    messages = [transfered(100 + number, b"body %d" % number) for number in range(3)]
    messages[damaged].checkSum ^= 1
    with pytest.raises(CorruptMessage, match=f"id {100 + damaged} does not match its checksum"):
        columns(*messages)


@pytest.mark.parametrize("field", ["messageId", "checkSum", "payLoadData", "flag"])
def test_message_without_a_field(field: str) -> None:
    """A message that lacks a field is an error and shifts no other message's fields."""
    messages = [transfered(number, b"the same") for number in range(3)]
    again = TransferedMessage(**{field: getattr(messages[2], field)})
    messages[1].ClearField(field)
    answer = GetMessageResponseB2C(success=True, errCode=200, messages=messages).SerializeToString()
    twice = messages[2].SerializeToString() + again.SerializeToString()  # so there are as many of each field
    with pytest.raises(CorruptMessage, match="lacks one of its fields"):
        checked_columns(arrived(answer + b"\x22" + varint(len(twice)) + twice))


def test_bad_messages_are_included() -> None:
    """Unchecked columns have all messages of the fetch, the bad ones with their payload."""
    messages = [tagged(1, b"a", "x"), tagged(2, b"b", "y"), transfered(3, b"\0\0\0\x63k=v", 1), transfered(4, b"d")]
    messages[1].checkSum ^= 1
    found, bad = unchecked_columns(wire(*messages))
    payload = messages[1].payLoadData
    assert found == Columns([1, 2, 3, 4], [one.payLoadData for one in messages], [1, 0, 1, 0])
    right = checksum(payload)
    assert bad == {
        1: f"the checksum is wrong: {right ^ 1} came with the message, its {len(payload)} bytes have {right}"
    }
    assert bad_attributes(found) == {2: "attributes of 99 bytes in a payload of 7"}
    assert unchecked_columns(wire(*messages), 1) == (columns(messages[0]), {})
