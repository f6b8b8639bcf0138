"""Envelopes: golden bytes, round trips, and whatever a peer may send."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ, damaged, outcome
from tubeclient.errors import ConnectionLost, ProtocolError, RemoteError, StandbyMaster
from tubeclient.wire.envelope import (
    Part,
    Request,
    decode_request,
    decode_response,
    encode_error,
    encode_request,
    encode_response,
    parse_message,
)
from tubeclient.wire.methods import Method

METHOD_ID = 20
STANDBY = "org.apache.inlong.tubemq.corerpc.exception.StandbyException"


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


# Worked out by hand: a message is its length as a varint, then fields; a field is number << 3 | type, then a value.
REQUEST = hexed(
    "02 08 00"  # RpcConnHeader: flag 0
    "04 08 01 10 03"  # RequestHeader: serviceType 1, protocolVer 3
    "09 08 14 10 90 4E 1A 02 08 01"  # RequestBody: method 20, timeout 10000, request 08 01
)
RESPONSE = hexed(
    "02 08 01"  # RpcConnHeader: flag 1
    "04 08 00 18 03"  # ResponseHeader: SUCCESS, protocolVer 3
    "07 08 14 12 03 08 C8 01"  # RspResponseBody: method 20, data 08 C8 01
)
ERROR = hexed("02 08 01 04 08 01 18 03 0B 0A 03") + b"a.B" + hexed("12 04") + b"text"
FATAL = hexed("02 08 01 02 08 02 07 0A 03") + b"a.B" + hexed("12 00")


def test_golden_bytes() -> None:
    assert encode_request(1, METHOD_ID, b"\x08\x01", 10_000) == REQUEST
    assert decode_request(REQUEST) == Request(1, METHOD_ID, 10_000, 3, b"\x08\x01")
    assert encode_response(METHOD_ID, b"\x08\xc8\x01") == RESPONSE
    assert decode_response(RESPONSE, METHOD_ID).data == b"\x08\xc8\x01"
    with pytest.raises(ProtocolError, match="method 20 where one to 21"):
        decode_response(RESPONSE, 21)


@pytest.mark.parametrize("stream", [ERROR, FATAL])
def test_a_failed_call_raises_what_the_server_named(stream: bytes) -> None:
    with pytest.raises(RemoteError) as caught:
        decode_response(stream, METHOD_ID)
    assert type(caught.value) is RemoteError
    assert (caught.value.exception_name, caught.value.retriable) == ("a.B", False)


@pytest.mark.parametrize("prefix", ["org.apache.inlong.tubemq", "com.tencent.tubemq"])
def test_a_standby_master_is_known_whatever_the_prefix(prefix: str) -> None:
    with pytest.raises(StandbyMaster, match="standby"):
        decode_response(encode_error(f"{prefix}.corerpc.exception.StandbyException", "standby"), METHOD_ID)


def test_server_starting_or_stopping() -> None:
    """A server that is starting or stopping counts as a lost connection."""
    name = "org.apache.inlong.tubemq.corerpc.exception.ServerNotReadyException"
    with pytest.raises(ConnectionLost, match=r"starting or stopping \(RpcServer is not running yet\)"):
        decode_response(encode_error(name, "RpcServer is not running yet", fatal=True), METHOD_ID)


@pytest.mark.parametrize("whole", [REQUEST, RESPONSE, ERROR, FATAL], ids=["request", "response", "error", "fatal"])
def test_envelopes_cut_at_every_position_are_refused(whole: bytes) -> None:
    for cut in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_request(whole[:cut])
        with pytest.raises(ProtocolError):
            decode_response(whole[:cut], METHOD_ID)


int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
requests = st.builds(encode_request, int32, int32, st.binary(max_size=200), int64)
responses = st.builds(encode_response, st.just(METHOD_ID), st.binary(max_size=200))
names = st.sampled_from([STANDBY, "java.lang.Error", ""]) | st.text(max_size=20)
failures = st.builds(encode_error, names, st.text(max_size=20), fatal=st.booleans())


@given(int32, st.binary(max_size=20_000))
@FUZZ
def test_response_round_trip(method_id: int, body: bytes) -> None:
    assert decode_response(encode_response(method_id, body), method_id).data == body


@given(st.binary(max_size=100) | damaged(requests) | damaged(responses) | damaged(failures))
@FUZZ
def test_any_bytes_as_a_request_or_response(stream: bytes) -> None:
    """Any bytes are a request, a response, or one of our errors."""
    request = outcome(lambda: decode_request(stream), ProtocolError)
    assert isinstance(request, Request) or request is ProtocolError
    found = outcome(lambda: decode_response(stream, METHOD_ID), ProtocolError, RemoteError)
    assert isinstance(found, Part) or found in (ProtocolError, RemoteError, StandbyMaster)


KINDS: list[type[Message]] = [kind for method in Method for kind in (method.spec.request, method.spec.response)]
TEXTS = ["", "1:topic:0", "é", "#"]


def filled(kind: type[Message], number: int = 3) -> Message:
    """A message of that kind with every field set, messages inside included."""
    message = kind()
    for field in message.DESCRIPTOR.fields:
        repeated = hasattr(getattr(message, field.name), "extend")
        if field.message_type is not None:
            inside = filled(GetMessageClass(field.message_type), number)  # type: ignore[arg-type]  # the C runtime's class
            target = getattr(message, field.name)
            if repeated:
                target.add().CopyFrom(inside)
            else:
                target.CopyFrom(inside)
            continue
        value: object
        if field.cpp_type == field.CPPTYPE_STRING:
            value = b"\xff" * number if field.type == field.TYPE_BYTES else TEXTS[number % len(TEXTS)]
        else:
            value = bool(number % 2) if field.cpp_type == field.CPPTYPE_BOOL else number
        if repeated:
            getattr(message, field.name).extend([value, value])
        else:
            setattr(message, field.name, value)
    return message


@given(st.sampled_from(KINDS), st.data())
@FUZZ
def test_any_bytes_are_a_message_or_a_protocol_error(kind: type[Message], data: st.DataObject) -> None:
    whole = st.just(filled(kind).SerializeToString())
    raw = data.draw(st.binary(max_size=60) | damaged(whole))
    found = outcome(lambda: parse_message(kind, raw), ProtocolError)
    if isinstance(found, Message):
        assert all(isinstance(text, str) for text in texts_in(found))
    else:
        assert found is ProtocolError


def texts_in(message: Message) -> list[object]:
    """The values of all text fields that are set, messages inside included."""
    found: list[object] = []
    for field, value in message.ListFields():
        items = value if hasattr(value, "extend") else [value]
        if field.message_type is not None:
            found += [text for item in items for text in texts_in(item)]
        elif field.type == field.TYPE_STRING:
            found += items
    return found
