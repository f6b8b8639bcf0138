"""InLong's Audit over the network: reports to audit-proxy, and queries of audit-service.

Read in apache/inlong at a6c7a6a670: SimpleTcpSource and ServerMessageHandler; ApiService, RealTimeQuery, SqlConstants.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit
from zoneinfo import ZoneInfo

from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.net.connection import split_address
from tubeclient.net.http import _Connection
from tubeclient.printable import printable
from tubeclient.settings import parse_master_servers
from tubeclient.wire.audit import HEAD_BYTES, reply_length, reply_refusal

__all__ = ["DATAPROXY_SENT", "AuditFailed", "AuditService", "proxy_addresses", "send_reports"]

DATAPROXY_SENT: Final = 6
"""Audit's id for what DataProxy sent to the queue (AuditIdEnum.DATA_PROXY_OUTPUT; success adds no bits)."""

_SECONDS: Final = 20.0
_MOST_BYTES: Final = 8 * 1024 * 1024
# The query of minutes ends at 1440 rows, one for each minute and audit version: a span leaves room for four.
_SPAN: Final = timedelta(hours=6)
_EACH_MINUTE: Final = "1"
_FORM: Final = "%Y-%m-%d %H:%M:%S"


class AuditFailed(TubeError):
    """Audit did not answer, refused, or is not what is at that address."""

    condition = "AUDIT_FAILED"
    retriable = True


def proxy_addresses(text: str, setting: str) -> tuple[str, ...]:
    """The addresses in "HOST:PORT,...". ConfigurationError, which names the setting, for what is none."""
    if "@" not in text and any(not part.rpartition(":")[0] for part in text.split(",")):
        raise ConfigurationError(f"{setting} is {printable(text)!r}; write the audit-proxies as HOST:PORT,...")
    return parse_master_servers(text, setting=setting, user_setting=setting)


def send_reports(address: str, reports: Iterable[tuple[int, bytes]], seconds: float) -> Iterator[int]:
    """Send frames to an audit-proxy, each after the answer to the one before; yields the request id of each that it
    took. AuditFailed if it does not take one, or if they are not all through in `seconds`."""
    end = time.monotonic() + seconds

    def left() -> float:
        if (seconds := end - time.monotonic()) <= 0:
            raise TimeoutError("no answer in time")
        return seconds

    def received(connection: socket.socket, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            connection.settimeout(left())
            if not (part := connection.recv(size - len(parts))):
                raise ConnectionError("the connection ended before the answer")
            parts += part
        return bytes(parts)

    try:
        with socket.create_connection(split_address(address), timeout=left()) as connection:
            for number, frame in reports:
                connection.settimeout(left())
                connection.sendall(frame)
                length = reply_length(received(connection, HEAD_BYTES))
                if (refusal := reply_refusal(received(connection, length), number)) is not None:
                    raise AuditFailed(f"the audit-proxy {address} refuses a report: {printable(refusal)}")
                yield number
    except (OSError, TubeError) as error:
        if isinstance(error, AuditFailed):
            raise
        raise AuditFailed(f"the audit-proxy {address} did not take a report: {error}") from error


class AuditService:
    """The OpenAPI of an audit-service at `url`, such as "http://audit:10080". Its clock has the zone `zone`: times in
    calls and answers are written without one. ConfigurationError for a URL that is none."""

    def __init__(self, url: str, zone: ZoneInfo) -> None:
        parts = urlsplit(url.strip())
        port: int | None = None
        with contextlib.suppress(ValueError):
            port = parts.port or 80
        if parts.scheme != "http" or not parts.hostname or not port or "@" in parts.netloc or parts.query:
            # Not repeated: it may hold a password.
            raise ConfigurationError("the address of Audit is not a URL such as http://audit:10080, of audit-service")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._address = f"{host}:{port}"
        self._path = parts.path.rstrip("/")
        self._zone = zone

    def counts(
        self, group: str, stream: str, since: datetime, until: datetime, audit_id: int = DATAPROXY_SENT
    ) -> dict[datetime, int]:
        """Records by minute of data time, in UTC, from `since` until before `until`. AuditFailed, or ConfigurationError
        if something else answers there.

        The stream "*" stands for all; services before apache/inlong's 11856 say nothing of it.
        """
        found: dict[datetime, int] = {}
        while since < until:
            end = min(since + _SPAN, until)
            for row in self._minutes(group, stream, since, end, audit_id):
                try:
                    moment = datetime.strptime(row["logTs"][:19], _FORM).replace(tzinfo=self._zone).astimezone(UTC)
                    found[moment] = found.get(moment, 0) + int(row["count"])
                except (KeyError, TypeError, ValueError):
                    raise AuditFailed(f"{self._named()} answered with a count without a time or number") from None
            since = end
        return found

    def _minutes(self, group: str, stream: str, since: datetime, until: datetime, audit_id: int) -> list[Any]:
        parameters = {
            "startTime": since.astimezone(self._zone).strftime(_FORM),
            "endTime": until.astimezone(self._zone).strftime(_FORM),
            "inlongGroupId": group,
            "inlongStreamId": stream,
            "auditId": str(audit_id),
            "auditCycle": _EACH_MINUTE,
        }
        # ApiService takes %20 for a blank, but no plus sign.
        path = f"{self._path}/audit/query/minutes?{urlencode(parameters, quote_via=quote)}"
        status, body = self._get(path)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            if body.lstrip().startswith(b"{"):
                raise AuditFailed(f"{self._named()} answered with JSON that is cut off or too long") from None
            answer = None
        if status != http.HTTPStatus.OK or not isinstance(answer, dict) or "success" not in answer:
            raise ConfigurationError(
                f"{self._named()} is not InLong's audit-service: it answered HTTP {status}, not as Audit does; check"
                " address and port, by default 10080"
            )
        rows = answer.get("data") or []
        if answer["success"] is not True or not isinstance(rows, list):
            raise AuditFailed(f"{self._named()} refuses the query: {printable(str(answer.get('errMsg')))}")
        return rows

    def _get(self, path: str) -> tuple[int, bytes]:
        try:
            with contextlib.closing(_Connection(self._address, _SECONDS)) as connection:
                connection.request("GET", path, headers={"Connection": "close"})
                with connection.getresponse() as answer:
                    return answer.status, answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AuditFailed(f"{self._named()} did not answer: {error}") from error

    def _named(self) -> str:
        return f"http://{self._address}{self._path}"
