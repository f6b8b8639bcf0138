"""Reports to InLong's audit-proxy, as bytes: a length of four bytes, big-endian, and a `Command`.

Read in apache/inlong at a6c7a6a670: AuditApi.proto, Commands, ServerMessageHandler, and SenderManager of the SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import parse_message
from tubeclient.wire.proto import audit_pb2

__all__ = ["HEAD_BYTES", "AuditCount", "Sender", "encode_reports", "reply_length", "reply_refusal"]

HEAD_BYTES: Final = 4
# Those of the SDK: AuditReporterImpl.BATCH_NUM and SenderManager.MAX_RESPONSE_LENGTH.
_MOST_COUNTS: Final = 100
_MOST_REPLY_BYTES: Final = 32 * 1024
# "None" of tag and version: ConfigConstants.DEFAULT_AUDIT_TAG, and DEFAULT_AUDIT_VERSION as an unsigned number. Audit
# counts only the highest version of a minute, so a round's number must not be the version.
_NO_TAG: Final = "-1"
_NO_VERSION: Final = 2**64 - 1


class Sender(NamedTuple):
    """Who reports. Audit takes equal counts of an equal sender for one, so a report that is sent again has the same.

    The columns of its tables limit `thread` to 50 characters.
    """

    thread: str
    time_ms: int
    packet: int


class AuditCount(NamedTuple):
    """Records of one minute of data time. `delay_ms` is summed over them."""

    minute_ms: int
    group: str
    stream: str
    audit_id: int
    records: int
    delay_ms: int


def encode_reports(sender: Sender, counts: Sequence[AuditCount]) -> Iterator[tuple[int, bytes]]:
    """Request ids and frames of reports that hold these counts. Two of them that differ in `records` and `delay_ms`
    alone are one to Audit."""
    for number, first in enumerate(range(0, len(counts), _MOST_COUNTS)):
        command = audit_pb2.Command(type=audit_pb2.Command.REQUEST)
        request = command.audit_request
        request.request_id = number
        header = request.msg_header
        # No address: it would tell a resend from another machine apart.
        header.thread_id, header.sdk_ts, header.packet_id = sender.thread, sender.time_ms, sender.packet
        for one in counts[first : first + _MOST_COUNTS]:
            request.msg_body.add(
                log_ts=one.minute_ms,
                inlong_group_id=one.group,
                inlong_stream_id=one.stream,
                audit_id=str(one.audit_id),
                count=one.records,
                delay=one.delay_ms,
                audit_tag=_NO_TAG,
                audit_version=_NO_VERSION,
            )
        body = command.SerializeToString(deterministic=True)
        yield number, len(body).to_bytes(HEAD_BYTES) + body


def reply_length(head: bytes) -> int:
    """The bytes that follow the head of an answer. ProtocolError for more than audit-proxy answers with."""
    length = int.from_bytes(head)
    if length > _MOST_REPLY_BYTES:
        raise ProtocolError(f"an answer of {length} bytes is not audit-proxy's")
    return length


def reply_refusal(body: bytes, request_id: int) -> str | None:
    """Why audit-proxy did not take a report; None if it did. ProtocolError for what is no answer to it."""
    command = parse_message(audit_pb2.Command, body)
    reply = command.audit_reply
    if command.type != audit_pb2.Command.REPLY or reply.request_id != request_id:
        raise ProtocolError("what came is not the answer to the report")
    return None if reply.rsp_code == audit_pb2.Reply.SUCCESS else reply.message or f"code {reply.rsp_code}"
