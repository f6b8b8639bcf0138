"""Answers to a fetch, encoded by hand: the messages stand ready in the store.

Only what is around them is written here.
"""

from __future__ import annotations

from typing import NamedTuple

from tubeclient.wire.envelope import varint
from tubeclient.wire.proto import broker_pb2, rpc_pb2

__all__ = ["EncodedAnswer", "encode_fetch_answer", "encode_response_parts"]

_CONNECTION_HEADER = rpc_pb2.RpcConnHeader(flag=1).SerializeToString()
_RESPONSE_HEADER = rpc_pb2.ResponseHeader(status=rpc_pb2.ResponseHeader.SUCCESS, protocolVer=3).SerializeToString()


class EncodedAnswer(NamedTuple):
    """The bytes of a response message in pieces, and how many bytes they are."""

    parts: list[bytes]
    size: int


def encode_fetch_answer(
    messages: list[bytes], message_bytes: int, *, start: int, max_offset: int, data_lag: int, slow: bool
) -> EncodedAnswer:
    """A GetMessageResponseB2C around messages that are encoded already; offsets and `data_lag` in bytes."""
    around = broker_pb2.GetMessageResponseB2C(
        success=True,
        errCode=200,
        errMsg="OK!",
        currOffset=start,
        escFlowCtrl=False,
        currDataDlt=data_lag,
        requireSlow=slow,
        maxOffset=max_offset,
    ).SerializeToString()
    # The order of fields is free, so everything but the messages stands in front of them.
    return EncodedAnswer([around, *messages], len(around) + message_bytes)


def encode_response_parts(method_id: int, answer: EncodedAnswer) -> bytes:
    """The stream of a successful response.

    The same bytes as tubeclient.wire's encode_response, without copying the answer twice.
    """
    body_head = b"\x08" + varint(method_id) + b"\x12" + varint(answer.size)
    head = b"".join(
        (
            varint(len(_CONNECTION_HEADER)),
            _CONNECTION_HEADER,
            varint(len(_RESPONSE_HEADER)),
            _RESPONSE_HEADER,
            varint(len(body_head) + answer.size),
            body_head,
        )
    )
    return b"".join([head, *answer.parts])
