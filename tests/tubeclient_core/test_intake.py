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
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.framing import BLOCK_BYTES, Frame, FrameDecoder
from tubeclient.wire.methods import BROKER_READ, BROKER_WRITE, MASTER
from tubeclient.wire.payload import checksum
from tubeclient.wire.proto.broker_pb2 import SendMessageRequestP2B
from tubeclient.wire.sends import SendEncoder

if CORE is None:
    pytest.skip("tubeclient_core is not built here; the plain code has its own tests", allow_module_level=True)

NOW_MS = 1_700_000_000_000
TOPICS = [TopicConfig("clicks", 2, 2), TopicConfig("views")]
OPEN, CLOSED = ServerSettings(), ServerSettings(users={"me": "secret"}, check_visit_token=True)

PAYLOADS = st.binary(max_size=9) | st.sampled_from([127, 128, 300, 2 * BLOCK_BYTES, (1 << 20) + 10_241]).map(bytes)
TAGS = st.sampled_from(["", "a", " a\x1c", "\u3000ü\u2028", "\x0b", "\U0001f600", "x" * 200])
REQUESTS = st.builds(
    lambda data, wrong, **fields: SendMessageRequestP2B(data=data, checkSum=wrong or checksum(data), **fields),
    PAYLOADS,
    st.sampled_from([0, 0, 0, -1, 5]),
    clientId=st.sampled_from(["me", "me", "you", " "]),
    topicName=st.sampled_from(["clicks", "clicks", " views", "none"]),
    partitionId=st.sampled_from([0, 0, 1, 10_000, 2, -1]),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    sentAddr=st.sampled_from([0, -5]),
    msgType=st.none() | TAGS,
    msgTime=st.none() | st.just("202601020304"),
    authInfo=st.sampled_from([None, {"visitAuthorizedToken": NOW_MS}, {"visitAuthorizedToken": 1}]),
).map(lambda request: request.SerializeToString())
# A field twice, an unknown one, a group, a number as text, tags that are not UTF-8, a number of 64 bits.
ADDED = ["1801", "2201 61", "6a0161", "7b7c", "1a0161", "4202c328", "28ffffffff1f"]
ODD = st.builds(lambda data, more: data + bytes.fromhex(more), REQUESTS, st.sampled_from(ADDED)) | damaged(REQUESTS)
CALLS = st.builds(
    encode_request,
    st.sampled_from([BROKER_WRITE, BROKER_WRITE, BROKER_READ, MASTER]),
    st.sampled_from([13, 13, 13, 13, 17, 99]),
    REQUESTS | REQUESTS | ODD,
    st.sampled_from([10_000, 0]),
)
STREAMS = st.lists(CALLS | CALLS | damaged(CALLS), max_size=8)


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
    assert CORE.take_sends(frames, 0, 99).groups == [[0, 2], [1]]
    assert CORE.take_sends(frames, 1, 99).groups == [[1], [0]]
    assert CORE.take_sends(frames, 0, 5).groups == []
