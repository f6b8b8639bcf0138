"""A minimal client of a TubeMQ server: one socket, frames, envelopes. On purpose independent of the project's
client."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.parse
import urllib.request
from types import TracebackType
from typing import Any, Self

from tubeclient.wire.envelope import decode_response, encode_request, parse_message
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame
from tubeclient.wire.methods import Method

__all__ = ["RawClient", "http_get"]

SECONDS = 10.0


class RawClient:
    """A connection to "host:port", over TLS where a context is given; every wait ends after 10 s."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), SECONDS)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        self._serial = 0

    def call(self, method: Method, **fields: Any) -> Any:
        """Send a request and return its answer."""
        return self.answer(method, self.send(method, **fields))

    def send(self, method: Method, **fields: Any) -> int:
        """Send a request; returns its serial number."""
        spec = method.spec
        return self.send_body(spec.service, spec.method_id, spec.request(**fields).SerializeToString())

    def send_body(self, service: int, method_id: int, body: bytes) -> int:
        """Send a request around any bytes; returns its serial number."""
        self._serial += 1
        self.socket.sendall(encode_frame(self._serial, encode_request(service, method_id, body, 10_000)))
        return self._serial

    def answer(self, method: Method, serial: int) -> Any:
        """The next frame, which must be the answer to that request."""
        frame = self.next_frame()
        assert frame.serial == serial
        return parse_message(method.spec.response, decode_response(frame.stream, method.spec.method_id).data)

    def next_frame(self) -> Frame:
        """The next frame; ConnectionError where the server ended the connection."""
        while not self._frames:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def http_get(port: int, method: str, *, post: bool = False, path: str = "webapi.htm", **parameters: Any) -> Any:
    """Call an HTTP interface on this machine; returns the JSON."""
    query = urllib.parse.urlencode({"method": method, **parameters})
    url, data = (
        (f"http://127.0.0.1:{port}/{path}", query.encode())
        if post
        else (f"http://127.0.0.1:{port}/{path}?{query}", None)
    )
    with urllib.request.urlopen(url, data, SECONDS) as response:
        assert response.status == 200
        return json.load(response)
