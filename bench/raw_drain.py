"""Fetches whole partitions of a TubeMQ broker and throws the bytes away, in one process.

Each partition has one request in flight. Of an answer only the error code is read. A partition is done when the broker
has no more of it, and a commit shows that the position is at the end of its data.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from tubeclient.flows.reader import Reader
from tubeclient.identity import new_client_id
from tubeclient.keys import PartitionKey
from tubeclient.net.connection import split_address
from tubeclient.wire.envelope import decode_response, encode_request, parse_message
from tubeclient.wire.framing import BEGIN_TOKEN, BLOCK_BYTES, FrameDecoder, encode_frame
from tubeclient.wire.methods import Method

__all__ = ["RawDrainError", "Thrown", "throw_away"]

_CALL_MS: Final = 20_000
_BUFFER_BYTES: Final = 8 << 20
_HEADER: Final = struct.Struct(">IiI")
_LENGTH: Final = struct.Struct(">I")
_ERROR_CODE_200: Final = b"\x10\xc8\x01"
_HEAD_BYTES: Final = 64
_NOTHING: Final = 404
_COMMIT: Final = 1 << 20
"""Added to a partition's number, which is the serial of its fetches, for its commits."""


class RawDrainError(RuntimeError):
    """The broker did not send all that it holds."""


class Thrown(NamedTuple):
    """What was received and thrown away."""

    messages: int
    """0 where answers were not parsed."""
    received_bytes: int
    packs: int
    began: float
    """When all partitions were connected, by time.monotonic(), which the processes of a machine share."""
    ended: float


def throw_away(
    address: str, keys: Sequence[PartitionKey], group: str, *, parsed: bool = False, connections: int = 1
) -> Thrown:
    """Fetch all that these partitions of the broker at `address` hold, from their first message on. RawDrainError."""
    lines: list[_Line] = []
    try:
        with selectors.DefaultSelector() as selector:
            for number in range(min(connections, len(keys))):
                line = _Line(address, keys[number::connections], group, parsed)
                lines.append(line)
                selector.register(line.socket, selectors.EVENT_READ, line)
            began = time.monotonic()
            for line in lines:
                line.begin()
            while any(line.open for line in lines):
                ready = selector.select(_CALL_MS / 1000)
                if not ready:
                    raise RawDrainError(f"{address} did not answer within {_CALL_MS} ms")
                for key, _ in ready:
                    key.data.receive()
        ended = time.monotonic()
        for line in lines:
            line.give_back()
    finally:
        for line in lines:
            line.socket.close()
    return Thrown(
        sum(line.messages for line in lines),
        sum(line.received_bytes for line in lines),
        sum(line.packs for line in lines),
        began,
        ended,
    )


class _Line:
    """A connection and its partitions."""

    def __init__(self, address: str, keys: Sequence[PartitionKey], group: str, parsed: bool) -> None:
        self.messages = self.received_bytes = self.packs = 0
        self.open: set[int] = set(range(len(keys)))
        self._keys = keys
        self._parsed = parsed
        self._reader = reader = Reader(group, new_client_id(group, "raw"))
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self.socket = socket.create_connection(split_address(address), _CALL_MS / 1000)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ends = [self._call(Method.PARTITION_REGISTER, reader.register(one, 0)).maxOffset for one in keys]
        self._fetches = [
            _frame(number, Method.GET_MESSAGES, reader.fetch(one, commit=True, unlimited=True))
            for number, one in enumerate(keys)
        ]
        self._commits = [
            _frame(_COMMIT + number, Method.COMMIT_OFFSET, reader.commit(one, consumed=True))
            for number, one in enumerate(keys)
        ]

    def begin(self) -> None:
        self.socket.sendall(b"".join(self._fetches))

    def give_back(self) -> None:
        for one in self._keys:
            self._call(Method.PARTITION_REGISTER, self._reader.unregister(one))

    def receive(self) -> None:
        """Receive what has come, and send the next request for each partition that was answered."""
        count = self.socket.recv_into(self._view[self._filled :])
        if not count:
            raise RawDrainError("the broker closed the connection")
        self.received_bytes += count
        self._filled += count
        start = 0
        requests: list[bytes] = []
        while (end := self._frame_end(start)) is not None:
            serial: int = _HEADER.unpack_from(self._buffer, start)[1]
            if serial >= _COMMIT:
                requests += self._after_commit(serial - _COMMIT, start, end)
            else:
                requests.append((self._fetches if self._is_pack(start, end) else self._commits)[serial])
            start = end
        if start:
            rest = self._filled - start
            self._buffer[:rest] = self._buffer[start : self._filled]
            self._filled = rest
        if requests:
            self.socket.sendall(b"".join(requests))

    def _frame_end(self, start: int) -> int | None:
        """Where the frame ends that begins there; None while bytes are missing. All blocks but the last are full."""
        if self._filled - start < _HEADER.size:
            return None
        token, _, blocks = _HEADER.unpack_from(self._buffer, start)
        if token != BEGIN_TOKEN:
            raise RawDrainError(f"begin token {token:#010x}: a frame of other blocks than those of {BLOCK_BYTES} bytes")
        last: int = start + _HEADER.size + (blocks - 1) * (_LENGTH.size + BLOCK_BYTES)
        if last + _LENGTH.size > self._filled:
            return None
        end: int = last + _LENGTH.size + _LENGTH.unpack_from(self._buffer, last)[0]
        return end if end <= self._filled else None

    def _is_pack(self, start: int, end: int) -> bool:
        """Whether an answer has messages; False if there is nothing more to read."""
        head = start + _HEADER.size + _LENGTH.size
        if (
            not self._parsed
            and end - start > BLOCK_BYTES
            and self._buffer.find(_ERROR_CODE_200, head, head + _HEAD_BYTES) >= 0
        ):
            self.packs += 1
            return True
        answer = self._answer(Method.GET_MESSAGES, start, end)
        if answer.errCode == _NOTHING:
            return False
        if not answer.success:
            raise RawDrainError(f"a fetch was refused: {answer.errCode} {answer.errMsg}")
        self.packs += 1
        self.messages += len(answer.messages)
        return True

    def _after_commit(self, number: int, start: int, end: int) -> list[bytes]:
        answer = self._answer(Method.COMMIT_OFFSET, start, end)
        if not answer.success:
            raise RawDrainError(f"a commit was refused: {answer.errCode} {answer.errMsg}")
        if answer.currOffset < self._ends[number]:
            return [self._fetches[number]]
        self.open.discard(number)
        return []

    def _answer(self, method: Method, start: int, end: int) -> Any:
        [frame] = FrameDecoder().feed(self._view[start:end])
        return parse_message(method.spec.response, decode_response(frame.stream, method.spec.method_id))

    def _call(self, method: Method, request: Message) -> Any:
        """Send a request while nothing else is in flight, and wait for its answer."""
        self.socket.sendall(_frame(0, method, request))
        decoder = FrameDecoder()
        while True:
            received = self.socket.recv(BLOCK_BYTES)
            if not received:
                raise RawDrainError("the broker closed the connection")
            for frame in decoder.feed(received):
                answer: Any = parse_message(method.spec.response, decode_response(frame.stream, method.spec.method_id))
                if not answer.success:
                    raise RawDrainError(f"{method.name}: {answer.errCode} {answer.errMsg}")
                return answer


def _frame(serial: int, method: Method, request: Message) -> bytes:
    spec = method.spec
    return encode_frame(
        serial, encode_request(spec.service, spec.method_id, request.SerializeToString(), timeout_ms=_CALL_MS)
    )
