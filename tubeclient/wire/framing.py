"""Frames: the format of a TCP connection.

A frame is a begin token, a serial number, a number of blocks, and that many blocks. A block is an int32 length and that
many bytes. All integers are big-endian. The concatenated blocks are the frame's stream (see `envelope`). Writers cut
the stream into blocks of 8192 bytes; readers take any length (source: Apache's NettyProtocolDecoder /
NettyProtocolEncoder).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tubeclient.core import CORE
from tubeclient.errors import ProtocolError

BLOCK_BYTES = 8192
MAX_BLOCKS = 3584  # Apache's bound: (20 MiB + 8 MiB) / 8 KiB
MAX_STREAM_BYTES = BLOCK_BYTES * MAX_BLOCKS
BEGIN_TOKEN = 0xFF7FF4FE
_HTTP_TOKEN = int.from_bytes(b"HTTP")
SPEAKS_HTTP = "the peer does not speak TubeMQ's protocol but HTTP"
"""How the error of an HTTP server begins."""

_HEADER = struct.Struct(">IiI")
_BLOCK_LENGTH = struct.Struct(">I")

_BUFFER_BYTES: Final = 1 << 16
_ROOM_BYTES: Final = 1 << 15
_LARGE_BUFFER_BYTES: Final = 4 << 20
"""A buffer that a frame has made larger than this is freed after the frame."""


class Frame(NamedTuple):
    """One frame: the stream, and the serial number that matches an answer to its request."""

    serial: int
    stream: bytes


def encode_frame(serial: int, stream: bytes) -> bytes:
    """Return the frame's bytes. A stream that is empty or over `MAX_STREAM_BYTES` is a ProtocolError."""
    if not 0 < len(stream) <= MAX_STREAM_BYTES:
        raise ProtocolError(f"a frame holds 1 to {MAX_STREAM_BYTES} bytes, not {len(stream)}")
    view = memoryview(stream)
    blocks = [view[start : start + BLOCK_BYTES] for start in range(0, len(stream), BLOCK_BYTES)]
    parts: list[bytes | memoryview] = [_HEADER.pack(BEGIN_TOKEN, serial, len(blocks))]
    for block in blocks:
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


class FrameDecoder:
    """Turns the bytes of a connection, fed in pieces of any size, into frames. It keeps the bytes of at most one frame,
    and refuses a wrong token, block count or length at once. It cannot be used after a ProtocolError."""

    def __init__(self) -> None:
        self._buffer = bytearray(_BUFFER_BYTES)
        self._end = 0  # of the received bytes
        self._block_ends: list[tuple[int, int]] = []  # (start, end) of the frame's blocks so far
        self._stream_bytes = 0

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Add bytes and return the frames they complete, in order."""
        frames: list[Frame] = []
        rest = memoryview(data)
        while rest:
            with self.room() as room:
                count = min(len(room), len(rest))
                room[:count] = rest[:count]
            rest = rest[count:]
            frames += self.received(count)
        return frames

    def room(self) -> memoryview:
        """A buffer to receive into without a copy. Release it before calling `received`."""
        if len(self._buffer) - self._end < _ROOM_BYTES:
            self._buffer += bytes(len(self._buffer))
        return memoryview(self._buffer)[self._end :]

    def received(self, count: int) -> list[Frame]:
        """Process `count` bytes received into `room`; return the frames they complete, in order."""
        self._end += count
        frames: list[Frame] = []
        start = 0
        with memoryview(self._buffer) as view:
            if CORE is not None and not self._block_ends and self._end <= _BUFFER_BYTES:
                start, whole = CORE.take_frames(bytes(view[: self._end]))
                frames += map(Frame._make, whole)
            while (frame_end := self._scan(start)) is not None:
                stream = b"".join(view[begin:end] for begin, end in self._block_ends)  # copies each byte once
                frames.append(Frame(_HEADER.unpack_from(view, start)[1], stream))
                start = frame_end
                self._block_ends, self._stream_bytes = [], 0
            if start:
                view[: self._end - start] = view[start : self._end]
                self._end -= start
                self._block_ends = [(a - start, b - start) for a, b in self._block_ends]
        if not self._end and len(self._buffer) > _LARGE_BUFFER_BYTES:
            self._buffer = bytearray(_BUFFER_BYTES)
        return frames

    def _scan(self, start: int) -> int | None:
        """Scan more blocks of the frame at `start`; return its end, or None while bytes are missing."""
        available = self._end
        if available - start < _HEADER.size:
            if available - start >= 4 and _BLOCK_LENGTH.unpack_from(self._buffer, start)[0] != BEGIN_TOKEN:
                raise ProtocolError("the peer does not speak TubeMQ's protocol, or requires TLS: wrong begin token")
            return None
        token, _serial, blocks = _HEADER.unpack_from(self._buffer, start)
        if token == _HTTP_TOKEN:
            raise ProtocolError(f"{SPEAKS_HTTP}: it is an HTTP port, perhaps a web port")
        if token != BEGIN_TOKEN:
            raise ProtocolError(
                f"the peer does not speak TubeMQ's protocol, or requires TLS: begin token {token:#010x}"
            )
        if not 1 <= blocks <= MAX_BLOCKS:
            raise ProtocolError(f"a frame of {blocks} blocks; 1 to {MAX_BLOCKS} are allowed")
        position = self._block_ends[-1][1] if self._block_ends else start + _HEADER.size
        while len(self._block_ends) < blocks:
            if available - position < _BLOCK_LENGTH.size:
                return None
            length = _BLOCK_LENGTH.unpack_from(self._buffer, position)[0]
            if length < 1 or self._stream_bytes + length > MAX_STREAM_BYTES:
                raise ProtocolError(f"a block of {length} bytes in a frame that may hold {MAX_STREAM_BYTES}")
            if available - position - _BLOCK_LENGTH.size < length:
                return None
            block_start = position + _BLOCK_LENGTH.size
            position = block_start + length
            self._block_ends.append((block_start, position))
            self._stream_bytes += length
        return position
