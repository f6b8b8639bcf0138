"""Serves the page: GET and HEAD only, without state, for this machine unless told otherwise."""

from __future__ import annotations

import ipaddress
import json
import time
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from typing import Any, Final

from tubeclient.errors import ConfigurationError
from tubeclient.net.timed_socket import TimedSocket
from tubeclient_cli.common.few_at_once import FewAtOnce
from tubeclient_cli.common.printable import one_line
from tubeclient_cli.dashboard.facts import Facts
from tubeclient_cli.dashboard.model import check_shown_name, dashboard_json, partitions_json

__all__ = ["PageServer", "is_own_host"]

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

_HEADERS: Final = {
    # Nothing from elsewhere, nothing to elsewhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_WAIT_S: Final = 1.5
"""How long a request waits for the looks; then it gets what is known."""
_CLIENT_TIMEOUT_S: Final = 15.0
_MOST_TEXT: Final = 500
_MOST_FIELDS: Final = 20


def is_own_host(header: str | None, names: Collection[str]) -> bool:
    """Whether a Host header names this server: an IP address, localhost or one of `names`.

    A foreign site can point a name of its own at 127.0.0.1, and its scripts could then read the page (DNS rebinding).
    It cannot do so with a bare address.
    """
    if header is None:
        return False
    try:
        host = urllib.parse.urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    if host in {"localhost", *(name.lower() for name in names)}:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class PageServer(FewAtOnce, HTTPServer):
    """Listens on `address` (host, port; port 0 takes a free one). `facts` is called with the seconds to wait for
    newer ones. OSError if the address is taken."""

    at_once = 64  # a browser keeps up to six
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], facts: Callable[[float], Facts], host_names: Collection[str] = ()
    ) -> None:
        self.facts = facts
        self.host_names = host_names
        self.files = _page_files()
        if ":" in address[0]:
            import socket

            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        text = str(host)
        return f"http://[{text}]:{port}/" if ":" in text else f"http://{text}:{port}/"


def _page_files() -> Mapping[str, tuple[str, bytes]]:
    """By path: media type and content of each file of the page."""
    found: dict[str, tuple[str, bytes]] = {}
    folder = files("tubeclient_cli.dashboard") / "page"
    for entry in folder.iterdir():
        media_type = _TYPES.get("." + entry.name.rpartition(".")[2])
        if media_type is not None:
            found["/" + entry.name] = media_type, entry.read_bytes()
    found["/"] = found.pop("/index.html")
    return found


def _query_of(text: str) -> Mapping[str, list[str]]:
    """The fields of an address. ValueError, with a sentence for the reader, for what cannot be meant."""
    try:
        found = urllib.parse.parse_qs(text, max_num_fields=_MOST_FIELDS, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("The address is not UTF-8 with percent signs.") from None
    except ValueError:
        raise ValueError(f"The address has more than {_MOST_FIELDS} fields.") from None
    for shown in found.get("group", []):
        try:
            check_shown_name(shown)
        except ConfigurationError as error:
            said = one_line(str(error))
            if len(said) > _MOST_TEXT:
                said = f"{said[: _MOST_TEXT // 2]} ... {said[-_MOST_TEXT // 2 :]}"
            raise ValueError(f"The address names no group: {said}.") from None
    return found


def _may_have_body(headers: Message) -> bool:
    """Whether somebody else, such as a proxy, may see a body behind these headers.

    Python ends the headers at a line that is none, keeps a space before the colon, and gives the first of several.
    """
    return (
        bool(headers.defects)
        or any(name != name.strip() for name in headers)
        or "Transfer-Encoding" in headers
        or any(length.strip() != "0" for length in headers.get_all("Content-Length", []))
    )


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    connection: TimedSocket
    server_version = "tubeclient"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = _CLIENT_TIMEOUT_S

    def do_GET(self) -> None:
        if _may_have_body(self.headers):
            # Its body is not read, and would be taken for the next request: behind a proxy, that of somebody else.
            self.close_connection = True
            self._text(HTTPStatus.BAD_REQUEST, "A request to read has no body.")
            return
        if not is_own_host(self.headers.get("Host"), self.server.host_names):
            self._text(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This name is unknown here. Use an address or localhost, or start the dashboard with --host-name NAME.",
            )
            return
        path, _, text = self.path.partition("?")
        try:
            query = _query_of(text)
        except ValueError as error:
            self._text(HTTPStatus.BAD_REQUEST, str(error))
            return
        if path in self.server.files:
            self._send(HTTPStatus.OK, *self.server.files[path])
        elif path == "/data.json":
            self._json(dashboard_json(self.server.facts(_WAIT_S), query.get("group", [])))
        elif path == "/partitions.json":
            [group] = query.get("group", [""])[:1]
            [wanted] = query.get("text", [""])[:1]
            found = partitions_json(self.server.facts(0), group, wanted[:_MOST_TEXT])
            if found is None:
                self._text(HTTPStatus.NOT_FOUND, "There is no such group.")
            else:
                self._json(found)
        else:
            self._text(HTTPStatus.NOT_FOUND, "There is nothing here; / is the page, /data.json its data.")

    do_HEAD = do_GET

    def handle_one_request(self) -> None:
        # For the whole request: who sends it byte by byte keeps no thread.
        self.connection.deadline = time.monotonic() + _CLIENT_TIMEOUT_S
        super().handle_one_request()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Python's own refusals, such as that of an unknown method, have this server's headers too."""
        self.close_connection = True
        self._text(HTTPStatus(code), f"{HTTPStatus(code).phrase}.")

    def _refuse(self) -> None:
        self.close_connection = True
        self._text(HTTPStatus.METHOD_NOT_ALLOWED, "Nothing can be changed here.", Allow="GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a terminal with a line every few seconds helps nobody."""

    def _json(self, document: dict[str, Any]) -> None:
        body = json.dumps(document, separators=(",", ":")).encode()
        self._send(HTTPStatus.OK, "application/json", body)

    def _text(self, status: HTTPStatus, text: str, **headers: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode(), **headers)

    def _send(self, status: HTTPStatus, media_type: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            **_HEADERS,
            "Content-Type": media_type,
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
