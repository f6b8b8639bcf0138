"""Requests of producers and the answers to them: each holds one message, so they come by the hundred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tubeclient.core import CORE
from tubeclient.errors import ProtocolError, TubeError, status_error
from tubeclient.keys import PartitionKey
from tubeclient.wire.envelope import decode_response, encode_request, parse_message, request_start
from tubeclient.wire.framing import encode_frame
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum
from tubeclient.wire.proto.broker_pb2 import SendMessageRequestP2B, SendMessageResponseB2P

_SEND = Method.SEND_MESSAGE.spec

Sendable: TypeAlias = tuple[str, bytes, int, str, str]
"""Topic, payload, flag, tag, time; "" for no tag, and for no time."""


class SendResult(NamedTuple):
    """Where a message was stored.

    Attributes:
        offset: The index offset. None if the broker did not return one.
    """

    partition: PartitionKey
    offset: int | None
    message_id: int


class SendEncoder:
    """Makes the requests of one client. `prove` fills in a request's `authInfo`."""

    def __init__(self, client_id: str, sent_from: int, timeout_ms: int, prove: Callable[[Any], None]) -> None:
        self._client = SendMessageRequestP2B(clientId=client_id).SerializePartialToString()
        self._sent_from = sent_from
        self._timeout_ms = timeout_ms
        self._prove = prove

    def frames(self, messages: list[Sendable], keys: Sequence[PartitionKey], serials: Sequence[int]) -> bytes:
        """The frames of messages for their partitions, with their serial numbers. ProtocolError: one is too large."""
        proof = SendMessageRequestP2B()
        self._prove(proof)
        around = self._client, proof.SerializePartialToString()
        if CORE is not None:
            envelope = request_start(_SEND.service, _SEND.method_id, self._timeout_ms)
            partitions = [key.partition_id for key in keys]
            frames: bytes | None = CORE.encode_sends(envelope, around, self._sent_from, messages, partitions, serials)
            if frames is not None:
                return frames
        return b"".join(map(encode_frame, serials, map(partial(self._stream, around), messages, keys)))

    def _stream(self, around: tuple[bytes, bytes], message: Sendable, key: PartitionKey) -> bytes:
        topic, payload, flag, tag, time = message
        request = SendMessageRequestP2B(
            topicName=topic,
            partitionId=key.partition_id,
            data=payload,
            flag=flag,
            checkSum=checksum(payload),
            sentAddr=self._sent_from,
            msgType=tag or None,
            msgTime=time or None,
        )
        body = request.SerializePartialToString().join(around)  # client and proof are the first field and the last
        return encode_request(_SEND.service, _SEND.method_id, body, self._timeout_ms)


def take_sent(streams: Sequence[bytes], keys: Sequence[PartitionKey]) -> list[SendResult | TubeError]:
    """What brokers' answers to messages for these partitions say. An error is that of the answer's code, or a
    ProtocolError."""
    found = [None] * len(streams) if CORE is None else CORE.take_sent(streams)
    new = tuple.__new__  # as SendResult itself does it, but faster
    return [
        _result_of(stream, key) if answer is None else new(SendResult, (key, *answer))
        for stream, key, answer in zip(streams, keys, found, strict=True)
    ]


def _result_of(stream: bytes, key: PartitionKey) -> SendResult | TubeError:
    try:
        answer = parse_message(SendMessageResponseB2P, decode_response(stream, _SEND.method_id).data)
    except TubeError as error:
        return error
    if answer.errCode != 200:
        return status_error(answer.errCode, answer.errMsg, context=f"sending to {key}", partition=str(key))
    if not answer.HasField("messageId"):
        return ProtocolError(f"the broker stored a message for {key} but returned no messageId")
    return SendResult(key, answer.appendOffset if answer.HasField("appendOffset") else None, answer.messageId)
