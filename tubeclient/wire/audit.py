"""Reports to InLong's audit-proxy, as bytes: a length of four bytes, big-endian, and a `Command`.

Read in apache/inlong at a6c7a6a670: AuditApi.proto, Commands, ServerMessageHandler, and SenderManager of the SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import parse_message
from tubeclient.wire.proto.audit_pb2 import Command

_REQUEST, _REPLY = 2, 3
_IDS = "33", "34"  # SORT_TUBE_INPUT and SORT_TUBE_OUTPUT of AuditIdEnum, which has none for Delta
_FAR_MS = 8 * 86_400_000
# Those of the SDK: AuditReporterImpl.BATCH_NUM and SenderManager.MAX_RESPONSE_LENGTH.
_MOST_COUNTS, _MOST_REPLY_BYTES = 100, 32 * 1024
# "None" of tag and version: DEFAULT_AUDIT_TAG, and DEFAULT_AUDIT_VERSION as an unsigned number. Audit counts only the
# highest version of a minute, so a round's number must not be the version.
_NO_TAG, _NO_VERSION = "-1", 2**64 - 1


def encode_reports(
    group: str, sender: tuple[str, int, int], counts: Iterable[tuple[str, int | None, int, int]]
) -> Iterator[bytes]:
    """Frames of reports of an InLong group's counts: stream, minute of data time in ms, records received and written;
    each minute of a stream once. Audit has no place for those without a time, and audit-proxy drops far ones.

    `sender` is a thread (at most 50 characters), a time in ms and a number. Audit takes equal counts of an equal sender
    for one, so a report that is sent again has the same.
    """
    some = [
        (stream, minute_ms, audit_id, records)
        for stream, minute_ms, *both in counts
        for audit_id, records in zip(_IDS, both, strict=True)
        if minute_ms is not None and abs(sender[1] - minute_ms) < _FAR_MS and records
    ]
    for first in range(0, len(some), _MOST_COUNTS):
        command = Command(type=_REQUEST)
        # No address: it would tell a resend from another machine apart.
        header = command.audit_request.msg_header
        header.thread_id, header.sdk_ts, header.packet_id = sender
        for stream, minute_ms, audit_id, records in some[first : first + _MOST_COUNTS]:
            report = command.audit_request.msg_body.add(audit_tag=_NO_TAG, audit_version=_NO_VERSION)
            report.inlong_group_id, report.inlong_stream_id, report.audit_id = group, stream, audit_id
            report.log_ts, report.count, report.delay = minute_ms, records, (sender[1] - minute_ms) * records
        body = command.SerializeToString(deterministic=True)
        yield len(body).to_bytes(4) + body


def reply_refusal(read: Callable[[int], bytes]) -> str | None:
    """Why audit-proxy did not take a report, whose answer `read` gives; None if it did. ProtocolError if it is none."""
    head = read(4)
    if len(head) < 4 or (length := int.from_bytes(head)) > _MOST_REPLY_BYTES or len(body := read(length)) < length:
        raise ProtocolError("the connection ended, or the answer is not from an audit-proxy")
    command = parse_message(Command, body)
    if command.type != _REPLY:
        raise ProtocolError("the answer does not belong to a report")
    reply = command.audit_reply
    return None if reply.rsp_code == 0 else reply.message or f"code {reply.rsp_code}"
