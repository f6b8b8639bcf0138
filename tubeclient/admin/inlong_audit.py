"""InLong's Audit over the network: reports to audit-proxy, and queries of audit-service.

Read in apache/inlong at a6c7a6a670: AuditIdEnum, SimpleTcpSource, ServerMessageHandler; ApiService, RealTimeQuery.
"""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from tubeclient.errors import TubeError
from tubeclient.net.connection import split_address
from tubeclient.net.http import fetch, server_url, timed_socket
from tubeclient.net.streams import client_context
from tubeclient.printable import printable
from tubeclient.settings import TlsSettings
from tubeclient.wire.audit import reply_refusal

_DATAPROXY_SENT: Final = "6"
"""Of what DataProxy sent to the queue (DATA_PROXY_OUTPUT); success adds no bits to an id."""

_REPORT_SECONDS, _QUERY_SECONDS, _PAUSE_SECONDS = 5.0, 20.0, 60.0
_MOST_UNSENT, _MOST_BYTES = 1000, 8 << 20
# A query of minutes ends at 1440 rows, one for each minute and audit version: a span leaves room for four.
_SPAN: Final = timedelta(hours=6)
_FORM: Final = "%Y-%m-%d %H:%M:%S"
_log = logging.getLogger(__name__)


class AuditFailed(TubeError):
    """Audit did not answer, refused, or is not what is at that address."""

    condition = "AUDIT_FAILED"
    retriable = True


class AuditReporter:
    """Sends reports to the first of the audit-proxies "HOST:PORT,..." that takes them.

    While none does they are kept, the newest thousand, and tried once in a minute; a warning says so.
    """

    def __init__(self, proxies: str) -> None:
        self._proxies = [proxy for proxy in proxies.split(",") if proxy]
        self._unsent: deque[bytes] = deque(maxlen=_MOST_UNSENT)
        self._next_try = 0.0

    def report(self, frames: Iterable[bytes], *, at_once: bool = False) -> None:
        """Send reports and those that are kept; these `at_once`, as at the end of a run. Raises nothing, and takes some
        seconds at most."""
        self._unsent.extend(frames if self._proxies else ())
        if not self._unsent or (time.monotonic() < self._next_try and not at_once):
            return
        end, failures = time.monotonic() + _REPORT_SECONDS, []
        for address in self._proxies:
            try:
                self._send(address, end)
                break
            except (OSError, OverflowError, TubeError) as error:
                failures.append(f"{address}: {printable(str(error))}")
        if self._unsent:
            self._next_try = time.monotonic() + _PAUSE_SECONDS
            text = "no audit-proxy accepts reports (%s); the job continues and keeps %d of them, at most %d"
            _log.warning(text, "; ".join(failures), len(self._unsent), _MOST_UNSENT)

    def _send(self, address: str, end: float) -> None:
        """Send what is kept, each report after the answer to the one before."""
        left = max(0.001, end - time.monotonic())
        connection = timed_socket(socket.create_connection(split_address(address), left), end)
        with connection, connection.makefile("rb") as answers:
            while self._unsent:
                connection.sendall(self._unsent[0])
                if (refusal := reply_refusal(answers.read)) is not None:
                    raise AuditFailed(refusal)
                self._unsent.popleft()


class AuditService:
    """The OpenAPI of an audit-service at `url`, such as "http://audit:10080". Its clock has the zone `zone`: times in
    calls and answers are written without one. ConfigurationError for a URL that is none."""

    def __init__(self, url: str, zone: ZoneInfo) -> None:
        self._is_tls, self._host, self._path = server_url(url, 10080, "Audit")
        self._named = f"InLong's Audit at http{'s' * self._is_tls}://{self._host}{self._path}"
        self._zone = zone

    def sent(self, group: str, stream: str, since: datetime, until: datetime) -> dict[datetime, int]:
        """Records that DataProxy sent, by hour of data time in UTC, from `since` until before `until`; "*" are all
        streams. AuditFailed."""
        found: dict[datetime, int] = {}
        while since < until:
            end = min(since + _SPAN, until)
            for minute, count in self._minutes(group, stream, since, end):
                hour = minute.replace(tzinfo=self._zone).astimezone(UTC).replace(minute=0, second=0)
                found[hour] = found.get(hour, 0) + count
            since = end
        return found

    def _minutes(self, group: str, stream: str, since: datetime, until: datetime) -> list[tuple[datetime, int]]:
        # Audit's sums of hours have repeated reports twice.
        start, end = (moment.astimezone(self._zone).strftime(_FORM) for moment in (since, until))
        asked = {"startTime": start, "endTime": end, "inlongGroupId": group, "inlongStreamId": stream}
        # ApiService takes %20 for a blank, but no plus sign.
        query = urlencode(asked | {"auditId": _DATAPROXY_SENT, "auditCycle": "1"}, quote_via=quote)
        tls = client_context(TlsSettings()) if self._is_tls else None
        call = self._host, "GET", f"{self._path}/audit/query/minutes?{query}", None, {"Connection": "close"}
        try:
            status, body = fetch(*call, seconds=_QUERY_SECONDS, tls=tls, most_bytes=_MOST_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AuditFailed(f"{self._named} did not answer: {error}") from error
        try:
            answer = json.loads(body)
            rows = {True: answer["data"] or []}[answer["success"]]
            return [(datetime.strptime(row["logTs"][:19], _FORM), int(row["count"])) for row in rows]
        except (KeyError, RecursionError, TypeError, ValueError):
            shown = printable(body[:300].decode(errors="replace"))
            raise AuditFailed(
                f"{self._named} answered HTTP {status} without counts; check host and port: {shown}"
            ) from None
