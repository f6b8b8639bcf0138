"""The web calls of masters and brokers, and the requests below them."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tubeclient.errors import ConfigurationError, ProtocolError, RemoteError, StandbyMaster, TransportError
from tubeclient.keys import joined_address
from tubeclient.net.connection import split_address

_HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", "Connection": "close"}

# An active master never sends this (Webapi).
_STANDBY_TEXT: Final = "Please send your request to the master"


if TYPE_CHECKING:
    _Socket = socket.socket
else:
    _Socket = object


class _Timed(_Socket):
    """Of a socket whose receives all end by one moment, however little comes at a time. TimeoutError after it."""

    deadline = 0.0
    """By time.monotonic(), seconds."""

    def recv_into(self, *arguments: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer was not complete in time")
        self.settimeout(left)
        return super().recv_into(*arguments)


class _TimedSocket(_Timed, socket.socket):
    pass


class _TimedTlsSocket(_Timed, ssl.SSLSocket):
    pass


def timed_socket(connection: socket.socket, deadline: float) -> socket.socket:
    """The connection, as a socket whose receives end by `deadline` of time.monotonic()."""
    timed = _TimedSocket(fileno=connection.detach())
    timed.deadline = deadline
    timed.settimeout(max(0.001, deadline - time.monotonic()))
    return timed


class _Connection(http.client.HTTPConnection):
    """For one request that ends within `seconds`. No proxy of the environment applies inside a cluster, and no redirect
    is followed: a standby master redirects to the active one (MasterStatusCheckFilter), and a token must not be sent to
    an address in an answer."""

    def __init__(self, address: str, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(*split_address(address), timeout=seconds)
        self._deadline = time.monotonic() + seconds
        self._tls = tls

    def connect(self) -> None:
        super().connect()
        self.sock = timed = timed_socket(self.sock, self._deadline)
        if self._tls is not None:
            self._tls.sslsocket_class = _TimedTlsSocket
            secured = self._tls.wrap_socket(timed, server_hostname=self.host)
            assert isinstance(secured, _TimedTlsSocket)
            secured.deadline = self._deadline
            self.sock = secured


def query_master(address: str, method: str, timeout_ms: int, **parameters: str) -> dict[str, Any]:
    """Return the answer of a master's `/webapi.htm?method=...`; `address` is "host:webPort"."""
    return _query(address, "webapi.htm", method, timeout_ms, parameters)


def query_broker(address: str, method: str, timeout_ms: int, **parameters: str) -> dict[str, Any]:
    """Return the answer of a broker's `/broker.htm?method=...`; `address` is "host:webPort"."""
    return _query(address, "broker.htm", method, timeout_ms, parameters)


def _query(address: str, page: str, method: str, timeout_ms: int, parameters: dict[str, str]) -> dict[str, Any]:
    """The JSON object of an answer. Raises TransportError without one, ProtocolError for a body that is not TubeMQ's,
    RemoteError if the server refuses, and StandbyMaster if the master is not active.

    Parameters are posted as a form: lists of names can exceed a URL's length, and tokens do not belong in a URL.
    """
    path = f"/{page}?{urllib.parse.urlencode({'method': method})}"
    try:
        form = urllib.parse.urlencode(parameters).encode()
        status, body = fetch(address, "POST", path, form, _HEADERS, seconds=timeout_ms / 1000)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TransportError(f"http://{address} did not answer: {reason}", address=address) from error
    if 300 <= status < 400:
        raise StandbyMaster(method, "this master is a standby", address=address)
    if status != http.HTTPStatus.OK:
        raise TransportError(f"http://{address} answered {method} with HTTP {status}", address=address)
    try:
        parsed = json.loads(body, strict=False)  # Apache's servers write line breaks into strings as they are
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"http://{address} answered {method} with something that is not JSON") from error
    if not isinstance(parsed, dict):
        raise ProtocolError(f"http://{address} answered {method} with JSON that is not an object")
    if parsed.get("result") is not True or parsed.get("errCode", 0) not in (0, 200):
        text = str(parsed.get("errMsg", ""))
        raise (StandbyMaster if _STANDBY_TEXT in text else RemoteError)(method, text, address=address)
    return parsed


def fetch(
    address: str,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    seconds: float,
    tls: ssl.SSLContext | None = None,
    most_bytes: int | None = None,
) -> tuple[int, bytes]:
    """The status of the answer, and its body: with `most_bytes` no more than one byte more of it. OSError or
    HTTPException if there is none within `seconds`."""
    with contextlib.closing(_Connection(address, seconds, tls)) as connection:
        connection.request(method, path, body, dict(headers))
        with connection.getresponse() as answer:
            return answer.status, answer.read() if most_bytes is None else answer.read(most_bytes + 1)


def server_url(url: str, port: int, whose: str) -> tuple[bool, str, str]:
    """Whether an address of InLong's server is https, "host:port", and the path; "http://" and, but for https, `port`
    may be left out. ConfigurationError that names the server, `whose`."""
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        is_tls, host, given = parts.scheme == "https", parts.hostname, parts.port
    except ValueError:
        host = None
    if (
        not host
        or parts.scheme not in ("http", "https")
        or "@" in parts.netloc  # perhaps a password, so it is not shown
        or (parts.query or parts.fragment)
        or not re.fullmatch(r"[!-~]+", url)
    ):
        raise ConfigurationError(
            f"the address of InLong's {whose} must look like http://host:{port}, without user and query"
        )
    return is_tls, joined_address(host, given or (443 if is_tls else port)), parts.path.rstrip("/")
