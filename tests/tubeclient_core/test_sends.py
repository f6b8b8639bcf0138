"""The compiled core beside the plain code for producers: equal requests, and equal results for any answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ, chunks_of, damaged, outcome
from tubeclient.core import CORE
from tubeclient.errors import ProtocolError
from tubeclient.keys import PartitionKey
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.wire.envelope import encode_error, encode_response
from tubeclient.wire.framing import BLOCK_BYTES, MAX_STREAM_BYTES, Frame, FrameDecoder, encode_frame
from tubeclient.wire.proto.broker_pb2 import SendMessageResponseB2P
from tubeclient.wire.sends import SendEncoder, SendResult, take_sent

if CORE is None:
    pytest.skip("tubeclient_core is not built here; the plain code has its own tests", allow_module_level=True)

T = TypeVar("T")

KEY = PartitionKey(7, "clicks", 10_003)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


@contextmanager
def without_core() -> Iterator[None]:
    with patch("tubeclient.wire.sends.CORE", None), patch("tubeclient.wire.framing.CORE", None):
        yield


def plain(call: Callable[[], T]) -> T:
    with without_core():
        return call()


# Requests

TEXTS = st.sampled_from(["", "a", "clicks", "ü€", "x" * 200])
PAYLOADS = st.binary(max_size=9) | st.sampled_from([127, 128, BLOCK_BYTES - 200, BLOCK_BYTES, 3 * BLOCK_BYTES]).map(
    bytes
)
SENDS = st.tuples(st.builds(OutgoingMessage, TEXTS, PAYLOADS, INT32, TEXTS, TEXTS), INT32, INT32)


def encoder(client_id: str = "me", sent_from: int = -5, timeout_ms: int = 10_000, token: int = -2) -> SendEncoder:
    def prove(request: Any) -> None:
        request.authInfo.visitAuthorizedToken = token

    return SendEncoder(client_id, sent_from, timeout_ms, prove)


@given(st.lists(SENDS, max_size=5), TEXTS, INT32, st.integers(1, 1 << 40), INT32)
@FUZZ
def test_any_messages_give_the_same_frames(
    sends: list[tuple[OutgoingMessage, int, int]], client_id: str, sent_from: int, timeout_ms: int, token: int
) -> None:
    made = encoder(client_id, sent_from, timeout_ms, token)
    messages, serials = [one for one, _, _ in sends], [serial for _, _, serial in sends]
    keys = [KEY._replace(partition_id=partition) for _, partition, _ in sends]
    frames = made.frames([*messages], keys, serials)
    assert frames == plain(lambda: made.frames([*messages], keys, serials))
    assert [frame.serial for frame in FrameDecoder().feed(frames)] == serials


ODD: list[Any] = [
    ("clicks", bytes(MAX_STREAM_BYTES), 0, "", ""),
    ("\ud800", b"x", 0, "", ""),
    ("clicks", b"x", 1 << 31, "", ""),
    ("clicks", "x", 0, "", ""),
    ("clicks", bytearray(b"x"), 0, "", ""),
    ("clicks", b"x", 0, ""),
    None,
]


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_unsendable_message(odd: int) -> None:
    """Core and plain code raise the same error for a message that cannot be sent."""

    def frames() -> bytes:
        return encoder().frames([OutgoingMessage.of("clicks", b"good"), ODD[odd]], [KEY, KEY], [1, 2])

    errors = ProtocolError, TypeError, ValueError
    assert outcome(frames, *errors) == plain(lambda: outcome(frames, *errors))


# Frames

FRAMES = st.tuples(INT32, st.binary(min_size=1, max_size=9) | st.just(bytes(BLOCK_BYTES + 1)))
STREAMS = st.lists(FRAMES, max_size=4).map(lambda frames: b"".join(encode_frame(*frame) for frame in frames))
SHORT_BLOCKS = bytes.fromhex("ff7ff4fe 00000009 00000002 00000001 61 00000002 6263")
NO_FRAMES = [
    bytes.fromhex("ff7ff4fe 00000009 00000000"),
    bytes.fromhex("ff7ff4fe 00000009 00000e01 00000001 61"),
    bytes.fromhex("ff7ff4fe 00000009 00000002 00000000 00000001 61"),
    bytes.fromhex("ff7ff4fe 00000009 00000001 ffffffff 61"),
    b"HTTP/1.1 400 Bad Request",
]


@given((STREAMS | damaged(STREAMS) | st.sampled_from([SHORT_BLOCKS, *NO_FRAMES])).flatmap(chunks_of))
@FUZZ
def test_any_bytes_as_frames(pieces: list[bytes]) -> None:
    """Core and plain code read the same frames, or raise the same error, for any bytes."""

    def taken() -> tuple[list[list[Frame]], str]:
        decoder, frames = FrameDecoder(), list[list[Frame]]()
        try:
            for piece in pieces:
                frames.append(decoder.feed(piece))
        except ProtocolError as error:
            return frames, str(error)
        return frames, ""

    assert taken() == plain(taken)


# Answers

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "requireAuth": st.booleans(),
    "messageId": st.integers(-(1 << 63), (1 << 63) - 1),
    "appendTime": st.integers(0, 1 << 60),
    "appendOffset": st.integers(-1, 1 << 60),
}
MESSAGES = st.builds(
    lambda code, fields: SendMessageResponseB2P(success=True, errCode=code, **fields).SerializePartialToString(),
    st.sampled_from([200, 200, 200, 403, 503, -1]),
    st.fixed_dictionaries({"errMsg": TEXTS}, optional=FIELDS) | st.fixed_dictionaries({}, optional=FIELDS),
)
# A field twice, one of an unknown number, a number as text, a group, text that is not UTF-8, a number of 64 bits.
ADDED = ["2803", "4005", "3a00", "4b4c", "1a02c328", "10c8ffffffffffffffff01", "10c8818080808080808001"]
BODIES = st.builds(lambda data, more: data + more, MESSAGES, st.just(b"") | st.sampled_from(ADDED).map(bytes.fromhex))
ANSWERS = st.builds(encode_response, st.sampled_from([13, 13, 13, 14]), BODIES | damaged(MESSAGES)) | st.builds(
    encode_error, TEXTS, TEXTS
)
GOOD = SendMessageResponseB2P(success=True, errCode=200, errMsg="", messageId=5, appendOffset=28).SerializeToString()
ODD_ANSWERS = [
    *(bytes.fromhex(start) + encode_response(13, GOOD)[3:] for start in ("020800", "0408011005", "0408000801")),
    encode_response(13, GOOD) + b"more",
    encode_response(13, GOOD + bytes.fromhex("c08080801005")),  # a field's number of 33 bits
    bytes.fromhex("020801 0408001064") + encode_response(13, GOOD)[8:],
    bytes.fromhex("020801 0408000800") + encode_response(13, GOOD)[8:],
    bytes.fromhex("020801 020801") + encode_response(13, GOOD)[8:],
    b"",
]


def sent(answer: bytes) -> Any:
    """Its result, or its error: kind and words."""
    [found] = take_sent([answer], [KEY])
    return found if isinstance(found, SendResult) else (type(found), str(found))


@pytest.mark.parametrize("odd", range(len(ODD_ANSWERS)))
def test_odd_answers(odd: int) -> None:
    assert sent(ODD_ANSWERS[odd]) == plain(lambda: sent(ODD_ANSWERS[odd]))


@given(ANSWERS | damaged(ANSWERS) | st.binary(max_size=40))
@FUZZ
def test_any_answer_says_the_same(answer: bytes) -> None:
    assert sent(answer) == plain(lambda: sent(answer))


def test_what_brokers_write_is_taken_by_the_core() -> None:
    assert CORE is not None
    # As Apache TubeMQ 2.4.0 wrote it.
    apache = bytes.fromhex(
        "020801040800180336080d1232080110c8011a1335383639353533313139383838363730373230200028808080eaedeeb5ba51309693"
        "8d8aa23438c0ac8002"
    )
    answers = [apache, encode_response(13, GOOD)]
    assert CORE.take_sent(answers) == [(4_200_000, 5869553119888670720), (28, 5)]
    frames = b"".join(encode_frame(number, answer) for number, answer in enumerate(answers))
    assert CORE.take_frames(frames + b"\xff") == (len(frames), list(enumerate(answers)))
    message = OutgoingMessage.of("clicks", b"x", tag="a", time="202601020304", attributes={"k": "v"})
    assert CORE.encode_sends((b"", b""), (b"", b""), 1, [message], [0], [1]) is not None
