"""Encodes answers to a fetch by hand: the store has the messages in wire form.

Only the fields around them are written here. The messages go from the store to the socket unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

from tubeclient.wire.envelope import varint
from tubeclient.wire.framing import BLOCK_BYTES, encode_block_length, encode_frame, encode_frame_start
from tubeclient.wire.proto import broker_pb2, rpc_pb2

__all__ = ["Pieces", "encode_fetch_answer", "encode_response", "frame_pieces"]

_CONNECTION_HEADER = rpc_pb2.RpcConnHeader(flag=1).SerializeToString()
_FULL_BLOCK = encode_block_length(BLOCK_BYTES)
_COPIED_BYTES = 4 * BLOCK_BYTES
"""Up to this size one copy is cheaper than two pieces."""
_RESPONSE_HEADER = rpc_pb2.ResponseHeader(status=rpc_pb2.ResponseHeader.SUCCESS, protocolVer=3).SerializeToString()


class Pieces(NamedTuple):
    """Bytes in two pieces: a short one, newly written, and one that may be long and must not be copied."""

    head: bytes
    rest: bytes | memoryview

    @property
    def size(self) -> int:
        """Bytes of both."""
        return len(self.head) + len(self.rest)

    def joined(self) -> bytes:
        """Both pieces as one."""
        return b"".join(self)


def encode_fetch_answer(
    messages: bytes | memoryview, *, start: int, max_offset: int, data_lag: int, slow: bool
) -> Pieces:
    """A GetMessageResponseB2C around encoded messages; offsets and `data_lag` in bytes."""
    around = broker_pb2.GetMessageResponseB2C(
        success=True,
        errCode=200,
        errMsg="OK!",
        currOffset=start,
        minLimitTime=0,
        escFlowCtrl=False,
        currDataDlt=data_lag,
        requireSlow=slow,
        maxOffset=max_offset,
    ).SerializeToString()
    # The order of fields is free, so everything else goes before the messages.
    return Pieces(around, messages)


def encode_response(method_id: int, answer: Pieces) -> Pieces:
    """The stream of a successful response: the same bytes as by tubeclient.wire's encode_response."""
    body_head = b"\x08" + varint(method_id) + b"\x12" + varint(answer.size)
    head = b"".join(
        (
            varint(len(_CONNECTION_HEADER)),
            _CONNECTION_HEADER,
            varint(len(_RESPONSE_HEADER)),
            _RESPONSE_HEADER,
            varint(len(body_head) + answer.size),
            body_head,
            answer.head,
        )
    )
    return Pieces(head, answer.rest)


def frame_pieces(serial: int, stream: Pieces) -> list[bytes | memoryview]:
    """A frame around a stream: the same bytes as by tubeclient.wire's encode_frame."""
    if stream.size <= _COPIED_BYTES or len(stream.head) > BLOCK_BYTES:
        return [encode_frame(serial, stream.joined())]
    rest = memoryview(stream.rest)
    in_first = min(BLOCK_BYTES - len(stream.head), len(rest))
    pieces: list[bytes | memoryview] = [encode_frame_start(serial, stream.size), stream.head, rest[:in_first]]
    for start in range(in_first, len(rest), BLOCK_BYTES):
        block = rest[start : start + BLOCK_BYTES]
        pieces += (_FULL_BLOCK if len(block) == BLOCK_BYTES else encode_block_length(len(block)), block)
    return pieces
