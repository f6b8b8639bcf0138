"""The compiled core beside the plain code for brokers: equal answers and equal stores, whatever comes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.catalogue import NOBODY, Catalogue, ServerSettings, TopicConfig
from embedded_tubemq.net.server import Endpoint
from embedded_tubemq.storage.store import StoreDirectory
from tests.wire.fuzz import FUZZ, damaged
from tubeclient.core import CORE
from tubeclient.keys import PartitionKey
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.wire.envelope import encode_request, varint
from tubeclient.wire.framing import BLOCK_BYTES, Frame, FrameDecoder
from tubeclient.wire.methods import BROKER_READ, BROKER_WRITE, MASTER
from tubeclient.wire.payload import checksum
from tubeclient.wire.proto.broker_pb2 import SendMessageRequestP2B
from tubeclient.wire.proto.rpc_pb2 import RequestBody
from tubeclient.wire.sends import SendEncoder
from tubeclient.wire.signature import sign

if CORE is None:
    pytest.skip("tubeclient_core is not built here; the plain code has its own tests", allow_module_level=True)

NOW_MS = 1_700_000_000_000
TOPICS = [TopicConfig("clicks", 2, 2), TopicConfig("views")]
OPEN, CLOSED = ServerSettings(), ServerSettings(users={"me": "secret"}, check_visit_token=True)

SIGNED = sign("me", "secret", NOW_MS, 5).joined
PROOFS = [{"visitAuthorizedToken": NOW_MS, "authAuthorizedToken": SIGNED}, {"visitAuthorizedToken": 1}, None]

PAYLOADS = st.binary(max_size=9) | st.sampled_from([127, 128, 2 * BLOCK_BYTES]).map(bytes)
TAGS = st.sampled_from(["", "a", " a\x1c", "\u3000ü\u2028", "\x0b", "\U0001f600", "x" * 200])
USUAL: dict[str, st.SearchStrategy[Any]] = {
    "clientId": st.just("me"),
    "topicName": st.just("clicks"),
    "partitionId": st.sampled_from([0, 0, 0, 1, 10_000]),
    "data": st.binary(min_size=1, max_size=99),
    "flag": st.integers(-(1 << 31), (1 << 31) - 1),
    "checkSum": st.just(-1),
    "sentAddr": st.just(-5),
    "msgType": TAGS,
    "msgTime": st.none() | st.just("202601020304"),
    "authInfo": st.just(PROOFS[0]),
}
UNUSUAL: dict[str, st.SearchStrategy[Any]] = {
    "clientId": st.sampled_from(["you", " ", None]),
    "topicName": st.sampled_from([" views", "none", None]),
    "partitionId": st.sampled_from([2, -1, None]),
    "data": PAYLOADS | st.none(),
    "flag": st.none(),
    "checkSum": st.sampled_from([checksum(b"a"), 5, None]),
    "sentAddr": st.none(),
    "authInfo": st.sampled_from(PROOFS[1:]),
}


def requests(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[bytes]:
    return st.fixed_dictionaries(fields).map(lambda given: SendMessageRequestP2B(**given).SerializePartialToString())


GOOD = requests(USUAL)
# A request that lacks a field or has what no broker takes.
ODD = st.sampled_from([*UNUSUAL]).flatmap(lambda name: requests({**USUAL, name: UNUSUAL[name]}))
# A field twice, an unknown one, a group, number and text for each other, text that is not UTF-8, a number of 64 bits.
ADDED = ["1801", "220161", "6a0161", "7b7c", "1a0161", "400161", "0a02c328", "4a02c328", "28ffffffff1f"]
LONGER = st.builds(lambda data, more: data + bytes.fromhex(more), GOOD, st.sampled_from(ADDED))
CALLS = [(MASTER, 13), (BROKER_READ, 13), (BROKER_READ, 17), (BROKER_READ, 99)]


def usual_call(request: bytes) -> bytes:
    return encode_request(BROKER_WRITE, 13, request, 10_000)


def with_two_methods(request: bytes) -> bytes:
    body = RequestBody(method=13, timeout=10_000, request=request).SerializeToString() + b"\x08\x11"
    return bytes.fromhex("020800 0408031003") + varint(len(body)) + body


USUAL_CALLS = GOOD.map(usual_call)
ODD_CALLS = st.one_of(
    *(some.map(usual_call) for some in (ODD, LONGER, damaged(GOOD))),
    st.builds(lambda call, request: encode_request(call[0], call[1], request, 10_000), st.sampled_from(CALLS), GOOD),
    GOOD.map(with_two_methods),
    damaged(USUAL_CALLS),
)
STREAMS = st.lists(st.booleans().flatmap(lambda usual: USUAL_CALLS if usual else ODD_CALLS), max_size=9)


def answered(streams: list[bytes], settings: ServerSettings, room: int) -> Any:
    """The answers, and what is in the files of stores; no file takes more bytes than there is room for."""
    write = os.write

    def bounded(fd: int, data: bytes) -> int:
        if (rest := room - os.fstat(fd).st_size) <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:rest])

    with TemporaryDirectory() as folder, patch("os.write", bounded):
        catalogue = Catalogue(NOW_MS, TOPICS)
        stores = StoreDirectory(Path(folder), catalogue, lambda: NOW_MS)
        endpoint = Endpoint(Broker(1, catalogue, stores, GroupOffsets(), settings), lambda: NOW_MS)
        frames = [Frame(-number, stream) for number, stream in enumerate(streams)]
        answers = [*endpoint.answers(frames, NOBODY)]
        stores.close()
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return answers, {str(path.relative_to(folder)): path.read_bytes() for path in files}


def plain(call: Callable[[], Any]) -> Any:
    with patch("embedded_tubemq.broker.broker.CORE", None):
        return call()


@given(STREAMS, st.sampled_from([OPEN, OPEN, CLOSED]), st.sampled_from([1 << 30, 1 << 30, 100, 400]))
@FUZZ
def test_any_requests_give_the_same_answers_and_stores(
    streams: list[bytes], settings: ServerSettings, room: int
) -> None:
    assert answered(streams, settings, room) == plain(lambda: answered(streams, settings, room))


def test_what_producers_write_is_taken_by_the_core() -> None:
    assert CORE is not None
    message = OutgoingMessage.of("clicks", b"x", tag="a", time="202601020304", attributes={"k": "v"})
    keys = [PartitionKey(1, "clicks", partition) for partition in (0, 1, 0)]
    frames = FrameDecoder().feed(SendEncoder("me", -5, 10_000, lambda _: None).frames([message] * 3, keys, [1, 2, 3]))
    size = len(message.payload)
    assert CORE.take_sends(frames, 0, size).groups == [[0, 2], [1]]
    assert CORE.take_sends(frames, 1, size).groups == [[1], [0]]
    assert CORE.take_sends(frames, 0, size - 1).groups == []
