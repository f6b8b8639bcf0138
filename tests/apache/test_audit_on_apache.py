"""Reports to Audit: ours are read by Apache's classes, and what its SDK sends by ours."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest

from tests.apache.java_client import JavaVM
from tests.tubeclient.inlong_audit import Row, audit_proxy
from tests.waiting import wait_for
from tubeclient.errors import ProtocolError
from tubeclient.wire.audit import encode_reports, reply_refusal

pytestmark = pytest.mark.apache

TEN_MS = int(datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp() * 1000)
# The fields of HEAD's AuditApi.proto that 1.5.0 has not.
TAG, VERSION = 8, 9


def test_apaches_class_reads_our_reports(java_vm: JavaVM) -> None:
    sender = ("f" * 32, TEN_MS + 1234, 2**40)
    counts = [(f"straße{n}", TEN_MS + n * 60_000, 10**n, 10**n - 1) for n in range(12)]
    api = java_vm.jvm.org.apache.inlong.audit.protocol.AuditApi
    [frame] = encode_reports("shop", sender, counts)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    command = api.BaseCommand.parseFrom(frame[4:])
    request = command.getAuditRequest()
    head = request.getMsgHeader()
    assert str(command.getType()) == "AUDIT_REQUEST"
    assert (head.getThreadId(), head.getSdkTs(), head.getPacketId()) == sender
    assert (head.getIp(), head.getDockerId()) == ("", "")
    found = list(request.getMsgBodyList())
    assert {one.getInlongGroupId() for one in found} == {"shop"}
    assert [
        (one.getInlongStreamId(), one.getLogTs(), one.getAuditId(), one.getCount(), one.getDelay()) for one in found
    ] == [
        (stream, minute_ms, audit_id, records, (TEN_MS + 1234 - minute_ms) * records)
        for stream, minute_ms, *both in counts
        for audit_id, records in zip(("33", "34"), both, strict=True)
        if records
    ]
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
    assert reply_refusal(io.BytesIO(answer).read) == refusal
    for cut in range(len(answer)):
        with pytest.raises(ProtocolError):
            reply_refusal(io.BytesIO(answer[:cut]).read)


def test_proxy_accepts_sdk_reports(java_vm: JavaVM) -> None:
    """The test proxy reads the report that Apache's Audit SDK sends."""
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
    assert row.records == 15
