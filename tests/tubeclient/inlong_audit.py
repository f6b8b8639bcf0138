"""An audit-proxy, and an audit-service over what came to it, as their sources have it in apache/inlong at a6c7a6a670.

The proxy keeps rows as audit-store does with MySQL, which has no key over them. The service answers its query of
minutes as RealTimeQuery.queryLogTs: equal rows are one, and only the highest version of a minute counts.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

from tests.apache.jvm import free_ports
from tests.tubeclient.fake_web import serving
from tubeclient.wire.proto.audit_pb2 import Command

__all__ = ["FAIL", "SILENT", "Row", "audit_proxy", "audit_service"]

FAIL = "fail"
SILENT = "silent"
_FORM = "%Y-%m-%d %H:%M:%S"


class Row(NamedTuple):
    """A row of Audit's table audit_data, without addresses and sizes. Versions are signed, as Java has them."""

    version: int
    thread: str
    sdk_ts: int
    packet: int
    log_ts: int
    group: str
    stream: str
    audit_id: str
    tag: str
    records: int
    delay: int


def rows_of(request: Command.Request) -> list[Row]:
    """The rows of a report (ServerMessageHandler.handleRequest)."""
    head = request.msg_header
    return [
        Row(
            version=one.audit_version - 2**64 if one.audit_version >= 2**63 else one.audit_version,
            thread=head.thread_id,
            sdk_ts=head.sdk_ts,
            packet=head.packet_id,
            log_ts=one.log_ts,
            group=one.inlong_group_id,
            stream=one.inlong_stream_id,
            audit_id=one.audit_id,
            tag=one.audit_tag,
            records=one.count,
            delay=one.delay,
        )
        for one in request.msg_body
    ]


@contextmanager
def audit_proxy(rows: list[Row], how: list[str], port: int = 0) -> Iterator[int]:
    """Put what comes into `rows`; gives the port. Each report takes a word of `how`, while there are some: FAIL answers
    as the proxy does when its queue is away, SILENT does not answer."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            open_now.append(self.request)
            stream = self.request.makefile("rb")
            while body := stream.read(int.from_bytes(stream.read(4))):
                command = Command.FromString(body)
                word = how.pop(0) if how else ""
                if word == SILENT:
                    ended.wait(20)
                    return
                if word != FAIL:
                    rows.extend(rows_of(command.audit_request))
                reply = Command.Reply(rsp_code=1, message="writing data error, discard it") if word == FAIL else None
                answer = Command(type=3, audit_reply=reply or Command.Reply()).SerializeToString()
                self.request.sendall(len(answer).to_bytes(4) + answer)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = False

    ended = threading.Event()
    open_now: list[socket.socket] = []
    with Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            ended.set()
            server.shutdown()
            thread.join()
            for connection in open_now:  # Apache's SDK leaves its own open
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def minutes(rows: list[Row], parameters: dict[str, str], zone: ZoneInfo) -> list[dict[str, Any]]:
    """StatData by log_ts."""
    since, until = (
        datetime.strptime(parameters[name], _FORM).replace(tzinfo=zone).timestamp() * 1000
        for name in ("startTime", "endTime")
    )
    of_all = parameters["inlongStreamId"] == "*"
    sums: dict[tuple[int, int], int] = {}
    for row in set(rows):
        asked = (row.group, row.audit_id) == (parameters["inlongGroupId"], parameters["auditId"])
        if asked and since <= row.log_ts < until and (of_all or row.stream == parameters["inlongStreamId"]):
            sums[row.log_ts, row.version] = sums.get((row.log_ts, row.version), 0) + row.records
    newest = {log_ts: max(version for at, version in sums if at == log_ts) for log_ts, _ in sums}
    return [
        {
            "auditVersion": version,
            "logTs": datetime.fromtimestamp(log_ts / 1000, UTC).astimezone(zone).strftime(_FORM),
            "inlongGroupId": parameters["inlongGroupId"],
            "inlongStreamId": parameters["inlongStreamId"],
            "auditId": parameters["auditId"],
            "auditTag": "-1",
            "count": sums[log_ts, version],
        }
        for log_ts, version in newest.items()
    ]


@contextmanager
def audit_service(rows: list[Row], zone: str = "UTC", body: bytes | None = None) -> Iterator[tuple[str, list[str]]]:
    """Answer over `rows`, or with `body`; gives the URL, and the requests as they come."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        # URI.getQuery decodes %20, and no plus sign.
        pairs = (pair.split("=") for pair in unquote(parts.query).split("&"))
        parameters = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        needed = {"startTime", "endTime", "auditId", "inlongGroupId", "inlongStreamId", "auditCycle"}
        document: dict[str, Any] = {"success": True, "errMsg": "", "data": []}
        if not needed <= set(parameters) or parts.path != "/audit/query/minutes":
            document |= {"success": False, "errMsg": f"Invalid params! {handler.path}"}
        else:
            document["data"] = minutes(rows, parameters, ZoneInfo(zone))[:1440]
        content = json.dumps(document).encode() if body is None else body
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    [port] = free_ports(1)
    with serving("127.0.0.1", port, answer) as seen:
        yield f"http://127.0.0.1:{port}", seen
