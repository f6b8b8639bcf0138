"""Envelopes: the three length-delimited protobufs in a frame's stream.

A request is RpcConnHeader, RequestHeader, RequestBody; a response RpcConnHeader, ResponseHeader and, by its status,
RspResponseBody or RspExceptionBody, each preceded by its length as a varint (Java's writeDelimitedTo).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from tubeclient.errors import ConnectionLost, ProtocolError, RemoteError, StandbyMaster
from tubeclient.wire.proto import rpc_pb2

PROTOCOL_VERSION = 3
"""The version of Apache's current Java client; a server chooses its exceptions' class names by it."""

_REQUEST_FLAG = 0
_RESPONSE_FLAG = 1

# Number << 3 | wire type: of RequestBody's last field, and of RspResponseBody's two.
_REQUEST_TAG = b"\x1a"
_METHOD_TAG, _DATA_TAG = b"\x08", b"\x12"

_ONE_BYTE = [bytes([value]) for value in range(0x80)]

M = TypeVar("M", bound=Message)


class Part(NamedTuple):
    """Bytes `start` to `end` of a stream; not copied before somebody needs them, as packs of messages are large."""

    stream: bytes
    start: int
    end: int

    @property
    def data(self) -> bytes:
        return self.stream[self.start : self.end]


class Request(NamedTuple):
    """A decoded request envelope; `body` has the bytes of the call's message."""

    service: int
    method_id: int
    timeout_ms: int
    protocol_version: int
    body: bytes


def parse_message(kind: type[M], data: bytes | memoryview) -> M:
    """Parse `data` as a `kind`. Raises ProtocolError for anything else, including missing required fields and text that
    is not UTF-8."""
    message = kind()
    try:
        message.ParseFromString(bytes(data))
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise ProtocolError(f"{len(data)} bytes are not a {kind.__name__}: {error}") from error
    if not message.IsInitialized():
        raise ProtocolError(f"a {kind.__name__} without one of its required fields")
    _check_text(message)
    return message


@lru_cache(maxsize=16)
def _header(kind: type[Any], data: bytes) -> Any:
    """A header, not to be changed: a server sends the same few bytes in each answer."""
    return parse_message(kind, data)


def encode_request(service: int, method_id: int, body: bytes, timeout_ms: int) -> bytes:
    """Return a request's stream. Servers drop a request, or its answer, once it is older than `timeout_ms`."""
    headers, start = request_start(service, method_id, timeout_ms)
    size = varint(len(body))
    whole = varint(len(start) + len(_REQUEST_TAG) + len(size) + len(body))
    return b"".join((headers, whole, start, _REQUEST_TAG, size, body))


@lru_cache(maxsize=64)
def request_start(service: int, method_id: int, timeout_ms: int) -> tuple[bytes, bytes]:
    """What comes before a RequestBody's length, and all of that body but its last field, the call's message."""
    headers = _join(
        rpc_pb2.RpcConnHeader(flag=_REQUEST_FLAG),
        rpc_pb2.RequestHeader(serviceType=service, protocolVer=PROTOCOL_VERSION),
    )
    return headers, rpc_pb2.RequestBody(method=method_id, timeout=timeout_ms).SerializeToString()


def decode_request(stream: bytes) -> Request:
    """Split a request's stream; ProtocolError if it is not one."""
    connection, head, rest = _split(stream)
    flag = _header(rpc_pb2.RpcConnHeader, connection.data).flag
    if flag != _REQUEST_FLAG:
        raise ProtocolError(f"flag {flag} where a request was expected")
    header = parse_message(rpc_pb2.RequestHeader, head.data)
    body = parse_message(rpc_pb2.RequestBody, rest.data)
    return Request(header.serviceType, body.method, body.timeout, header.protocolVer, body.request)


def encode_response(method_id: int, body: bytes) -> bytes:
    """Return the stream of a successful response."""
    return _join(
        rpc_pb2.RpcConnHeader(flag=_RESPONSE_FLAG),
        rpc_pb2.ResponseHeader(status=rpc_pb2.ResponseHeader.SUCCESS, protocolVer=PROTOCOL_VERSION),
        rpc_pb2.RspResponseBody(method=method_id, data=body),
    )


def encode_error(exception_name: str, text: str, *, fatal: bool = False) -> bytes:
    """Return the stream of a failed response, with the Java exception that ended the call."""
    status = rpc_pb2.ResponseHeader.FATAL if fatal else rpc_pb2.ResponseHeader.ERROR
    header = rpc_pb2.ResponseHeader(status=status)
    if not fatal:
        header.protocolVer = PROTOCOL_VERSION
    return _join(
        rpc_pb2.RpcConnHeader(flag=_RESPONSE_FLAG),
        header,
        rpc_pb2.RspExceptionBody(exceptionName=exception_name, stackTrace=text),
    )


def decode_response(stream: bytes, method_id: int) -> Part:
    """Return the call's message in a response's stream. Raises StandbyMaster or RemoteError if the server
    could not run the call, ConnectionLost if it is starting or stopping, ProtocolError if it is no response to
    `method_id`."""
    connection, head, rest = _split(stream)
    flag = _header(rpc_pb2.RpcConnHeader, connection.data).flag
    if flag != _RESPONSE_FLAG:
        raise ProtocolError(f"flag {flag} where a response was expected")
    if _header(rpc_pb2.ResponseHeader, head.data).status != rpc_pb2.ResponseHeader.SUCCESS:
        failure = parse_message(rpc_pb2.RspExceptionBody, rest.data)
        # The prefix of the class name depends on the protocol version, so compare the end only.
        if failure.exceptionName.endswith(".ServerNotReadyException"):  # an IOException of NettyRpcServer's
            raise ConnectionLost(f"the server is starting or stopping ({failure.stackTrace})")
        kind = StandbyMaster if failure.exceptionName.endswith(".StandbyException") else RemoteError
        raise kind(failure.exceptionName, failure.stackTrace)
    data = _plain_data(rest, method_id)
    if data is not None:
        return data
    body = parse_message(rpc_pb2.RspResponseBody, rest.data)
    if body.method != method_id:
        raise ProtocolError(f"an answer to method {body.method} where one to {method_id} was expected")
    return Part(body.data, 0, len(body.data))


def _plain_data(body: Part, method_id: int) -> Part | None:
    """The data of a RspResponseBody with only method and data, as all known servers write it."""
    before = _before_data(method_id)
    if not body.stream.startswith(before, body.start, body.end):
        return None
    length, start = _read_varint(body.stream, body.start + len(before))
    return Part(body.stream, start, body.end) if start + length == body.end else None


@lru_cache(maxsize=64)
def _before_data(method_id: int) -> bytes:
    return _METHOD_TAG + varint(method_id % (1 << 64)) + _DATA_TAG


@cache
def _text_fields(descriptor: Descriptor) -> tuple[str, ...]:
    """The text fields, and the message fields that contain text."""
    return tuple(
        field.name
        for field in descriptor.fields
        if field.type == field.TYPE_STRING or (field.message_type is not None and _text_fields(field.message_type))
    )


def _check_text(message: Message) -> None:
    """Refuse text that is not UTF-8: for proto2, protobuf's C runtime returns it as bytes, and callers expect str."""
    for name in _text_fields(message.DESCRIPTOR):
        value = getattr(message, name)
        for item in (value,) if isinstance(value, (str, bytes, Message)) else value:
            if isinstance(item, Message):
                _check_text(item)
            elif not isinstance(item, str):
                raise ProtocolError(f"{message.DESCRIPTOR.name}.{name} is not UTF-8 text")


def _join(*messages: Message) -> bytes:
    parts: list[bytes] = []
    for message in messages:
        data = message.SerializeToString()
        parts += (varint(len(data)), data)
    return b"".join(parts)


def _split(stream: bytes) -> tuple[Part, Part, Part]:
    """The three messages; what comes after them is passed over."""
    pieces: list[Part] = []
    end = 0
    for _ in range(3):
        length, start = _read_varint(stream, end)
        end = start + length
        if end > len(stream):
            raise ProtocolError(f"an envelope that ends {end - len(stream)} bytes early")
        pieces.append(Part(stream, start, end))
    return pieces[0], pieces[1], pieces[2]


def varint(value: int) -> bytes:
    """`value` >= 0 as a protobuf varint."""
    if value <= 0x7F:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(stream: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and where it ends."""
    if position < len(stream) and stream[position] < 0x80:  # most are small
        return stream[position], position + 1
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(stream):
            raise ProtocolError("an envelope that ends inside a length")
        byte = stream[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtocolError("a length of more than five bytes in an envelope")
