"""From a request's stream to an answer's stream: between frames and state machines; no sockets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from google.protobuf.message import Message

from embedded_tubemq.common.faults import ConnectionFault, Faults
from embedded_tubemq.common.peer import NOBODY, Peer
from embedded_tubemq.common.refusal import StandbyRefusal
from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import Request, decode_request, encode_error, encode_response, parse_message
from tubeclient.wire.methods import BROKER_READ, BROKER_WRITE, Method, method_of

__all__ = ["Endpoint", "Machine", "Reply"]

_LOG = logging.getLogger(__name__)

# Java class names by the version of the request; source: MixUtils.replaceClassNamePrefix.
_PACKAGES = {1: "com.tencent.tubemq.", 2: "com.apache.tubemq."}
_CURRENT_PACKAGE = "org.apache.inlong.tubemq."
_HANDLER_FAILED = "java.lang.reflect.InvocationTargetException"


class Machine(Protocol):
    """The state machine behind an endpoint: a master or a broker."""

    faults: Faults

    @property
    def methods(self) -> frozenset[Method]:
        """The calls it answers."""

    def serve(self, method: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message | bytes:
        """Answer one call."""


class Reply(NamedTuple):
    """An answer: a stream, and a fault for the connection (`stream` None: send nothing)."""

    stream: bytes | None
    fault: ConnectionFault | None = None
    delay_ms: int = 0


class Endpoint:
    """Answers the requests of all connections to one server."""

    def __init__(self, machine: Machine, clock: Callable[[], int]) -> None:
        self._machine = machine
        self._clock = clock

    def answer(self, stream: bytes, peer: Peer) -> Reply:
        """Answer one request."""
        delay_ms = self._machine.faults.answer_delay_ms
        try:
            request = decode_request(stream)
        except ProtocolError as error:
            return Reply(_error("java.io.IOException", str(error), fatal=True), None, delay_ms)
        method = method_of(request.method_id)
        if method is None:
            text = f"unknown method {request.method_id}"
            return Reply(_error("java.lang.UnsupportedOperationException", text, fatal=True), None, delay_ms)
        fault = self._machine.faults.take_connection_fault(method)
        if fault is ConnectionFault.DROP_BEFORE:
            return Reply(None, fault)
        answer = self._call(method, request, peer)
        if fault in (ConnectionFault.DROP_AFTER, ConnectionFault.SILENCE):
            return Reply(None, fault, delay_ms)
        return Reply(answer, fault, delay_ms)

    def _call(self, method: Method, request: Request, peer: Peer) -> bytes:
        if method not in self._machine.methods or not _service_fits(method, request.service):
            has_service = any(_service_fits(offered, request.service) for offered in self._machine.methods)
            lacks = f"No method {request.method_id} in service" if has_service else "No service"
            return _error("java.lang.Exception", f"{lacks} {request.service} found on the server")
        try:
            message = parse_message(method.spec.request, request.body)
        except ProtocolError as error:
            return _error("java.io.IOException", str(error), fatal=True)
        try:
            answer = self._machine.serve(method, message, self._clock(), peer)
        except StandbyRefusal as refusal:
            package = _PACKAGES.get(request.protocol_version, _CURRENT_PACKAGE)
            return _error(package + "corerpc.exception.StandbyException", str(refusal))
        except Exception:
            # TubeMQ answers the same way when a handler throws: the reflection layer's class, and no text.
            _LOG.exception("%s from %s failed", method.name, peer.address)
            return _error(_HANDLER_FAILED, "")
        return encode_response(request.method_id, answer.SerializeToString() if isinstance(answer, Message) else answer)


def _error(exception_name: str, text: str, *, fatal: bool = False) -> bytes:
    return encode_error(exception_name, text, fatal=fatal)


def _service_fits(method: Method, service: int) -> bool:
    if method is Method.SEND_MESSAGE:
        return service in (BROKER_READ, BROKER_WRITE)
    return service == method.spec.service
