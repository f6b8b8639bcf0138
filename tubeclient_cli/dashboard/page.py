"""The page, which loads itself anew, and its server: GET only, for this machine unless told otherwise."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tubeclient_cli.common.printable import one_line

__all__ = ["PageServer", "is_own_host", "page_of"]

_PERIOD_S: Final = 10
_MOST_ROWS: Final = 20
_HEAD: Final = f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta http-equiv="refresh" content="{_PERIOD_S}">
<title>TubeMQ groups</title>
<style>
body {{ font: 15px system-ui, sans-serif; margin: 2em; color-scheme: light dark; }}
table {{ border-collapse: collapse; }}
th, td {{ border-bottom: 1px solid #8886; padding: .3em .8em; text-align: left; }}
</style>"""
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def page_of(groups: list[Mapping[str, Any]], failures: list[str], at: datetime) -> str:
    """The page. `groups` are documents of `status_json`."""
    groups = sorted(groups, key=lambda one: (-one["verdict"].severity, one["consumerGroup"]))
    of_groups = ("group", "topics", "verdict", "messages behind, at most")
    rows = [(one["consumerGroup"], one["topicSet"], one["verdict"], one["rowsBehindAtMost"]) for one in groups]
    parts = [f"<p>{escape(one_line(text))}</p>" for text in failures]
    parts.append(_table(f"Groups, as of {at:%F %T} UTC", of_groups, rows))
    columns = ("partition", "verdict", "why", "position", "messages behind, at most", "last commit")
    for one in groups:
        partitions = sorted(
            one["partitions"], key=lambda row: (-row["verdict"].severity, -(row["rowsBehindAtMost"] or 0))
        )
        names = ("partition", "verdict", "why", "nextOffset", "rowsBehindAtMost", "committedAt")
        cells = [tuple(row[name] for name in names) for row in partitions]
        parts.append(_table(f"{one['consumerGroup']}: {one['verdict']}", columns, cells))
    return f"{_HEAD}{''.join(parts)}</html>"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """All texts are escaped. None is empty."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:_MOST_ROWS])
    more = f"<p>and {len(rows) - _MOST_ROWS:,} more</p>" if len(rows) > _MOST_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div><p>{escape(one_line(title))}</p>{table}{more}</div>"


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return f"<td>{escape(one_line(text))}</td>"


def is_own_host(header: str | None) -> bool:
    """Whether a Host header is an IP address or localhost. A foreign site can point a name of its own at 127.0.0.1, and
    its scripts could then read the page (DNS rebinding); it cannot do so with a bare address."""
    try:
        host = urllib.parse.urlsplit(f"//{header or ''}").hostname or ""
        return host == "localhost" or bool(ipaddress.ip_address(host))
    except ValueError:
        return False


class PageServer(ThreadingHTTPServer):
    """Listens on `address` (host, port; port 0 takes a free one), and gives what `look` returned in the last seconds.
    OSError if the address is taken."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], look: Callable[[], str]) -> None:
        self._look = look
        self._one_looks = threading.Lock()
        self._page, self._looked_at = "", -float("inf")
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def page(self) -> str:
        with self._one_looks:
            if time.monotonic() - self._looked_at > _PERIOD_S / 2:
                self._page, self._looked_at = self._look(), time.monotonic()
            return self._page


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "tubeclient"
    sys_version = ""
    timeout = 15.0

    def do_GET(self) -> None:
        is_local = ipaddress.ip_address(str(self.server.server_address[0])).is_loopback
        if is_local and not is_own_host(self.headers.get("Host")):
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "Use an address or localhost.\n")
        elif self.path == "/":
            self._send(HTTPStatus.OK, self.server.page())
        else:
            self._send(HTTPStatus.NOT_FOUND, "There is nothing here; / is the page.\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a terminal with a line every few seconds helps nobody."""

    def _send(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
