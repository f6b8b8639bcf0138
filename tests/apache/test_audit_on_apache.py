"""Reports to Audit: ours are read by Apache's classes, and what its SDK sends by ours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.apache.java_client import JavaVM
from tests.tubeclient.inlong_audit import Row, audit_proxy
from tests.waiting import wait_for
from tubeclient.wire.audit import HEAD_BYTES, AuditCount, Sender, encode_reports, reply_length, reply_refusal

pytestmark = pytest.mark.apache

TEN_MS = int(datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp() * 1000)
# The fields of HEAD's AuditApi.proto that 1.5.0 has not.
TAG, VERSION = 8, 9


def test_apaches_class_reads_our_reports(java_vm: JavaVM) -> None:
    sender = Sender("f" * 32, TEN_MS + 1234, 2**40)
    counts = [AuditCount(TEN_MS + n * 60_000, "shop", f"straße{n}", 34, 10**n, -5 + n) for n in range(19)]
    api = java_vm.jvm.org.apache.inlong.audit.protocol.AuditApi
    [(number, frame)] = encode_reports(sender, counts)
    assert int.from_bytes(frame[:HEAD_BYTES]) == len(frame) - HEAD_BYTES
    command = api.BaseCommand.parseFrom(frame[HEAD_BYTES:])
    request = command.getAuditRequest()
    head = request.getMsgHeader()
    assert (str(command.getType()), request.getRequestId()) == ("AUDIT_REQUEST", number)
    assert (head.getThreadId(), head.getSdkTs(), head.getPacketId()) == sender
    assert (head.getIp(), head.getDockerId()) == ("", "")
    found = list(request.getMsgBodyList())
    assert [
        AuditCount(
            *(one.getLogTs(), one.getInlongGroupId(), one.getInlongStreamId()),
            *(int(one.getAuditId()), one.getCount(), one.getDelay()),
        )
        for one in found
    ] == counts
    unknown = found[0].getUnknownFields()
    assert sorted(unknown.asMap().keySet()) == [TAG, VERSION]
    assert unknown.getField(TAG).getLengthDelimitedList().get(0).toStringUtf8() == "-1"
    assert unknown.getField(VERSION).getVarintList().get(0) == -1  # a Java long


@pytest.mark.parametrize(
    ("code", "text", "refusal"), [(0, "", None), (1, "queue away", "queue away"), (2, "", "code 2")]
)
def test_we_read_apaches_answers(java_vm: JavaVM, code: int, text: str, refusal: str | None) -> None:
    protocol = java_vm.jvm.org.apache.inlong.audit.protocol
    reply = protocol.AuditApi.AuditReply.newBuilder().setRequestId(3).setMessage(text).setRspCodeValue(code).build()
    buffer = protocol.Commands.getAuditReplyBuffer(reply)
    answer = bytes(buffer.readByte() & 0xFF for _ in range(buffer.readableBytes()))
    assert reply_length(answer[:HEAD_BYTES]) == len(answer) - HEAD_BYTES
    assert reply_refusal(answer[HEAD_BYTES:], 3) == refusal


def test_our_proxy_of_the_tests_takes_what_apaches_sdk_sends(java_vm: JavaVM) -> None:
    rows: list[Row] = []
    java = java_vm.jvm
    operator = java.org.apache.inlong.audit.AuditOperator.getInstance()
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
    minute_ms = int(minute.timestamp() * 1000)
    with audit_proxy(rows, []) as port:
        addresses = java.java.util.HashSet()
        addresses.add(f"127.0.0.1:{port}")
        operator.setAuditProxy(addresses)
        for _ in range(3):
            operator.add(6, "shop", "clicks", minute_ms + 1234, 5, 70)
        operator.send()
        wait_for(lambda: rows, "the report of the SDK")
    [row] = rows
    assert (row.group, row.stream, row.audit_id, row.log_ts) == ("shop", "clicks", "6", minute_ms)
    assert (row.records, row.size) == (15, 210)
