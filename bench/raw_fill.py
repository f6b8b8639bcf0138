"""Sending messages of one length to a TubeMQ broker as fast as it takes them, in one process.

A request is a copy of the first one with another body and checksum: to make a message object for each takes ten times
as long. The broker answers each request. Messages that it refuses because it is busy are sent again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from tubeclient.identity import new_client_id, own_address
from tubeclient.keys import PartitionKey
from tubeclient.net.connection import split_address
from tubeclient.wire.envelope import decode_response, encode_request, parse_message
from tubeclient.wire.framing import FrameDecoder, encode_frame
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum
from tubeclient.wire.proto import broker_pb2

__all__ = ["RawFillError", "send_all"]

_CALL_SECONDS: Final = 20.0
_RECEIVE_BYTES: Final = 1 << 18
_BYTES_IN_FLIGHT: Final = 1 << 20
_MOST_IN_FLIGHT: Final = 2_000
_BUSY: Final = 419
_BUSY_SECONDS: Final = 0.005
_SUCCESS: Final = b"\x08\x01\x10\xc8\x01"
"""success and errCode 200, as an answer begins."""
_NO_TOKEN: Final = -2
_SPEC: Final = Method.SEND_MESSAGE.spec


class RawFillError(RuntimeError):
    """The broker did not take a message."""


def send_all(address: str, keys: Sequence[PartitionKey], first: int, end: int, body_bytes: int) -> None:
    """Send messages `first` to `end` to the partitions in turn, the body of each its number. RawFillError."""
    window = max(16, min(_MOST_IN_FLIGHT, _BYTES_IN_FLIGHT // body_bytes))
    at_once = max(1, window // 4)
    requests = _Requests(keys, body_bytes)
    decoder = FrameDecoder()
    unanswered = 0
    with socket.create_connection(split_address(address), _CALL_SECONDS) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting = iter(range(first, end))
        again: list[int] = []
        while True:
            numbers = again or list(islice(waiting, at_once))
            again = []
            if numbers:
                line.sendall(b"".join(map(requests.frame, numbers)))
                unanswered += len(numbers)
            elif not unanswered:
                return
            while unanswered > window - at_once or (unanswered and not numbers):
                received = line.recv(_RECEIVE_BYTES)
                if not received:
                    raise RawFillError(f"{address} closed the connection")
                for frame in decoder.feed(received):
                    unanswered -= 1
                    if _SUCCESS not in frame.stream:
                        _check_busy(frame.stream)
                        again.append(frame.serial)
                if again:
                    time.sleep(_BUSY_SECONDS)
                    break


def _check_busy(stream: bytes) -> None:
    answer = parse_message(broker_pb2.SendMessageResponseB2P, decode_response(stream, _SPEC.method_id))
    if answer.errCode != _BUSY:
        raise RawFillError(f"a message was refused: {answer.errCode} {answer.errMsg}")


class _Requests:
    """The frame of each message; its serial is the message's number."""

    def __init__(self, keys: Sequence[PartitionKey], body_bytes: int) -> None:
        self._count = len(keys)
        self._body_bytes = body_bytes
        client_id = new_client_id("producer", "raw")
        self._pieces = [self._around(key, client_id) for key in keys]

    def frame(self, number: int) -> bytes:
        before, between, after = self._pieces[number % self._count]
        body = self._body(number)
        return encode_frame(number, b"".join((before, body, between, _five_bytes(checksum(body)), after)))

    def _body(self, number: int) -> bytes:
        return b"%0*d" % (self._body_bytes, number)

    def _around(self, key: PartitionKey, client_id: str) -> tuple[bytes, bytes, bytes]:
        """The bytes of a request before its body, between body and checksum, and after the checksum."""
        body, mark = self._body(0), 0x7FFFFFFF
        request = broker_pb2.SendMessageRequestP2B(
            clientId=client_id,
            topicName=key.topic,
            partitionId=key.partition_id,
            data=body,
            flag=0,
            checkSum=mark,
            sentAddr=own_address(),
        )
        request.authInfo.visitAuthorizedToken = _NO_TOKEN
        call = request.SerializeToString()
        stream = encode_request(_SPEC.service, _SPEC.method_id, call, int(_CALL_SECONDS * 1000))
        before, found, rest = stream.partition(body)
        between, found_too, after = rest.partition(_five_bytes(mark))
        if not (found and found_too):
            raise RawFillError("the parts of a request are not where they should be")
        return before, between, after


def _five_bytes(value: int) -> bytes:
    """A varint below 2**35, always in five bytes, so that all requests have the same length."""
    return bytes([value >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)] + [value >> 28])
