"""Reports of rounds to InLong's Audit, over real sockets."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.tubeclient.inlong_audit import FAIL, SILENT, Row, audit_proxy
from tubeclient.admin import inlong_audit
from tubeclient.admin.inlong_audit import AuditReporter
from tubeclient.wire.audit import encode_reports

HOUR_MS = int(datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS = 60_000
SENT_MS = HOUR_MS + 30 * MINUTE_MS


def frames(*counts: tuple[str, int | None, int, int], sequence: int = 7) -> Iterator[bytes]:
    return encode_reports("shop", ("a" * 32, SENT_MS, sequence), counts or [("clicks", HOUR_MS, 1, 1)])


def counts(rows: list[Row]) -> dict[tuple[str, str, int], int]:
    """What Audit answers from what came: equal rows are one."""
    found: dict[tuple[str, str, int], int] = {}
    for one in set(rows):
        key = (one.stream, one.audit_id, (one.log_ts - HOUR_MS) // MINUTE_MS)
        found[key] = found.get(key, 0) + one.records
    return found


def test_report_identifies_round() -> None:
    """A report has all that Audit needs to recognize the round."""
    rows: list[Row] = []
    with audit_proxy(rows, []) as port:
        AuditReporter(f"127.0.0.1:{port}").report(frames(("clicks", HOUR_MS, 15, 13)))
    [received, sent] = sorted(rows, key=lambda one: one.audit_id)
    header = {"thread": "a" * 32, "sdk_ts": SENT_MS, "packet": 7}
    names = {"log_ts": HOUR_MS, "group": "shop", "stream": "clicks", "audit_id": "33", "tag": "-1", "version": -1}
    assert received._asdict() == header | names | {"records": 15, "delay": 15 * 30 * MINUTE_MS}
    assert (sent.audit_id, sent.records) == ("34", 13)


def test_repeated_report() -> None:
    """The same counts are taken once, and another round in the same minute adds to them."""
    rows: list[Row] = []
    with audit_proxy(rows, []) as port:
        for sequence in (7, 7, 8):
            AuditReporter(f"127.0.0.1:{port}").report(frames(sequence=sequence))
    assert len(rows) == 6
    assert counts(rows) == {("clicks", "33", 0): 2, ("clicks", "34", 0): 2}


def test_many_and_unfit_counts() -> None:
    """Counts go into several reports if needed, without those that Audit has no place for."""
    rows: list[Row] = []
    others = [("clicks", None, 5, 5), ("clicks", 0, 5, 5), ("clicks", HOUR_MS * 2, 2**40, 5)]
    with audit_proxy(rows, []) as port:
        some = [("clicks", HOUR_MS + n * MINUTE_MS, n, n) for n in range(160)]
        AuditReporter(f"127.0.0.1:{port}").report(frames(*some, *others))
    assert counts(rows) == {("clicks", one, n): n for one in ("33", "34") for n in range(1, 160)}


def test_stopped_proxy(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is down stops nothing and gets all reports later."""
    rows: list[Row] = []
    with audit_proxy([], []) as port:
        pass
    reporter = AuditReporter(f"127.0.0.1:{port}")
    for sequence in range(3):
        reporter.report(frames(sequence=sequence))
    [told] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert f"no audit-proxy accepts reports (127.0.0.1:{port}: " in told.getMessage()
    with audit_proxy(rows, [], port):
        reporter.report(frames(sequence=3))
        assert not rows  # it is not tried in each round
        monkeypatch.setattr(inlong_audit, "_PAUSE_SECONDS", 0.0)
        reporter.report((), at_once=True)
        assert counts(rows)["clicks", "34", 0] == 4


def test_what_is_kept_is_bounded_and_a_refusal_is_told(caplog: pytest.LogCaptureFixture) -> None:
    rows: list[Row] = []
    with audit_proxy(rows, [FAIL]) as port:
        reporter = AuditReporter(f"127.0.0.1:{port}")
        for sequence in range(1003):
            reporter.report(frames(sequence=sequence))
        reporter.report((), at_once=True)
    assert sorted({one.packet for one in rows}) == [*range(3, 1003)]
    assert "writing data error" in caplog.records[0].getMessage()


def test_another_proxy_takes_what_the_first_does_not() -> None:
    rows: list[Row] = []
    with audit_proxy([], [FAIL] * 9) as first, audit_proxy(rows, []) as second:
        AuditReporter(f"127.0.0.1:99999,127.0.0.1:{first},127.0.0.1:{second}").report(frames())
    assert counts(rows)["clicks", "34", 0] == 1


def drip(listener: socket.socket, ended: threading.Event) -> None:
    """An answer of which a byte comes now and then."""
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"\0\0\x7f\0")
        while not ended.wait(0.1):
            connection.sendall(b"\0")


@pytest.mark.parametrize("is_slow", [False, True])
def test_unresponsive_proxy(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_slow: bool) -> None:
    """A proxy that does not answer delays a round for a bounded time."""
    monkeypatch.setattr(inlong_audit, "_REPORT_SECONDS", 0.5)
    ended, begin = threading.Event(), time.monotonic()
    with audit_proxy([], [SILENT]) as silent, socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener, ended), daemon=True)
        thread.start()
        port: Any = listener.getsockname()[1] if is_slow else silent
        AuditReporter(f"127.0.0.1:{port}").report(frames())
        took = time.monotonic() - begin
        ended.set()
        if not is_slow:
            socket.create_connection(listener.getsockname()).close()
        thread.join()
    assert took < 5
    assert "in time" in caplog.text or "timed out" in caplog.text
