"""Serves the page: GET only, without state, for this machine unless told otherwise."""

from __future__ import annotations

import ipaddress
import json
import socket
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final

from tubeclient_cli.dashboard.looking import Facts
from tubeclient_cli.dashboard.model import dashboard_json

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
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_WAIT_S: Final = 1.5
"""How long a request waits for the first look."""


def is_own_host(header: str | None) -> bool:
    """Whether a Host header is an IP address or localhost. A foreign site can point a name of its own at 127.0.0.1, and
    its scripts could then read the page (DNS rebinding); it cannot do so with a bare address."""
    try:
        host = urllib.parse.urlsplit(f"//{header or ''}").hostname or ""
        return host == "localhost" or bool(ipaddress.ip_address(host))
    except ValueError:
        return False


class PageServer(ThreadingHTTPServer):
    """Listens on `address` (host, port; port 0 takes a free one). `facts` is called with the seconds to wait for the
    first ones. OSError if the address is taken."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], facts: Callable[[float], Facts]) -> None:
        self.facts = facts
        self.files = _page_files()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(str(self.server_address[0])).is_loopback


def _page_files() -> Mapping[str, tuple[str, bytes]]:
    """By path: media type and content of each file of the page."""
    found: dict[str, tuple[str, bytes]] = {}
    for entry in (files("tubeclient_cli.dashboard") / "page").iterdir():
        media_type = _TYPES.get("." + entry.name.rpartition(".")[2])
        if media_type is not None:
            found["/" + entry.name] = media_type, entry.read_bytes()
    found["/"] = found.pop("/index.html")
    return found


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "tubeclient"
    sys_version = ""
    timeout = 15.0

    def do_GET(self) -> None:
        path, _, text = self.path.partition("?")
        if self.server.is_local and not is_own_host(self.headers.get("Host")):
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"Use an address or localhost.\n")
        elif path in self.server.files:
            self._send(HTTPStatus.OK, *self.server.files[path])
        elif path == "/data.json":
            [chosen] = urllib.parse.parse_qs(text).get("group", [""])[:1]
            document = dashboard_json(self.server.facts(_WAIT_S), chosen)
            self._send(HTTPStatus.OK, "application/json", json.dumps(document, separators=(",", ":")).encode())
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"There is nothing here; / is the page.\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a terminal with a line every few seconds helps nobody."""

    def _send(self, status: HTTPStatus, media_type: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": media_type, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
