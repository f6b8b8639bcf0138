"""Reports to InLong's audit-proxy, as bytes: a length of four bytes, big-endian, and a `Command`.

Read in apache/inlong at a6c7a6a670: AuditApi.proto, Commands, ServerMessageHandler, and SenderManager of the SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import parse_message
from tubeclient.wire.proto.audit_pb2 import Command

__all__ = ["AuditCount", "encode_reports", "reply_length", "reply_refusal"]

_REQUEST, _REPLY = 2, 3
# Those of the SDK: AuditReporterImpl.BATCH_NUM and SenderManager.MAX_RESPONSE_LENGTH.
_MOST_COUNTS, _MOST_REPLY_BYTES = 100, 32 * 1024
# "None" of tag and version: DEFAULT_AUDIT_TAG, and DEFAULT_AUDIT_VERSION as an unsigned number. Audit counts only the
# highest version of a minute, so a round's number must not be the version.
_NO_TAG, _NO_VERSION = "-1", 2**64 - 1


class AuditCount(NamedTuple):
    """Records of one minute of data time."""

    group: str
    stream: str
    minute_ms: int
    audit_id: int
    records: int


def encode_reports(thread: str, time_ms: int, packet: int, counts: Sequence[AuditCount]) -> Iterator[bytes]:
    """Frames of reports that hold these counts, one for each minute, stream and id. Audit takes equal counts for one if
    thread (at most 50 characters), time and packet are equal too: so a report that is sent again has the same."""
    for first in range(0, len(counts), _MOST_COUNTS):
        command = Command(type=_REQUEST)
        # No address: it would tell a resend from another machine apart.
        header = command.audit_request.msg_header
        header.thread_id, header.sdk_ts, header.packet_id = thread, time_ms, packet
        for group, stream, minute_ms, audit_id, records in counts[first : first + _MOST_COUNTS]:
            one = command.audit_request.msg_body.add(audit_tag=_NO_TAG, audit_version=_NO_VERSION)
            one.inlong_group_id, one.inlong_stream_id, one.log_ts = group, stream, minute_ms
            one.audit_id, one.count, one.delay = str(audit_id), records, (time_ms - minute_ms) * records
        body = command.SerializeToString(deterministic=True)
        yield len(body).to_bytes(4) + body


def reply_length(head: bytes) -> int:
    """The bytes that follow the first four of an answer. ProtocolError if they are not audit-proxy's."""
    if len(head) < 4 or (length := int.from_bytes(head)) > _MOST_REPLY_BYTES:
        raise ProtocolError("the connection ended, or what came is not audit-proxy's")
    return length


def reply_refusal(body: bytes) -> str | None:
    """Why audit-proxy did not take a report; None if it did. ProtocolError for what is no answer."""
    command = parse_message(Command, body)
    if command.type != _REPLY:
        raise ProtocolError("what came is not the answer to a report")
    reply = command.audit_reply
    return None if reply.rsp_code == 0 else reply.message or f"code {reply.rsp_code}"
