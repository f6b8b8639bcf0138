"""Reports of rounds to InLong's Audit, over real sockets."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.tubeclient.inlong_audit import FAIL, SILENT, Row, audit_proxy
from tubeclient.errors import ConfigurationError
from tubeclient_ingest import inlong_audit
from tubeclient_ingest.inlong_audit import AuditReporter

HOUR = datetime(2026, 11, 21, 10, tzinfo=UTC)
COMMITTED = HOUR + timedelta(minutes=30)


def row(
    minute: datetime | None, written: int, bad: int = 0, *, stream: str | None = "clicks", **more: Any
) -> tuple[Any, ...]:
    """A row of the counts table."""
    given = {"received": written + bad, "sequence": 7, "run": "a" * 32, "time": COMMITTED, **more}
    return ("shop", stream, minute, given["received"], written, bad, given["sequence"], given["run"], given["time"])


def counts(rows: list[Row]) -> dict[tuple[str, str, int], int]:
    """What Audit answers from what came: equal rows are one."""
    found: dict[tuple[str, str, int], int] = {}
    for one in set(rows):
        key = (one.stream, one.audit_id, one.log_ts)
        found[key] = found.get(key, 0) + one.records
    return found


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def test_a_round_is_reported_with_what_audit_needs_to_know_it_again() -> None:
    rows: list[Row] = []
    with audit_proxy(rows, []) as port:
        AuditReporter(f"127.0.0.1:{port}").report([row(HOUR, 8, 2), row(HOUR, 5)])
    [received, sent] = sorted(rows, key=lambda one: one.audit_id)
    header = {"ip": "", "docker": "", "thread": "a" * 32, "sdk_ts": ms(COMMITTED), "packet": 7}
    names = {"log_ts": ms(HOUR), "group": "shop", "stream": "clicks", "audit_id": "33", "tag": "-1", "version": -1}
    counted = {"records": 15, "size": 0, "delay": 15 * 30 * 60_000}
    assert received._asdict() == header | names | counted
    assert (sent.audit_id, sent.records) == ("34", 13)


def test_the_same_rows_count_once_and_another_round_of_the_minute_is_added() -> None:
    rows: list[Row] = []
    with audit_proxy(rows, []) as port:
        reporter = AuditReporter(f"127.0.0.1:{port}")
        reporter.report([row(HOUR, 8)])
        AuditReporter(f"127.0.0.1:{port}").report([row(HOUR, 8)])  # as after a crash, from the table
        reporter.report([row(HOUR, 8, sequence=8)])
    assert len(rows) == 6
    assert counts(rows) == {("clicks", "33", ms(HOUR)): 16, ("clicks", "34", ms(HOUR)): 16}


def test_more_counts_than_fit_into_one_report() -> None:
    rows: list[Row] = []
    with audit_proxy(rows, []) as port:
        AuditReporter(f"127.0.0.1:{port}").report([row(HOUR + timedelta(minutes=n), n + 1) for n in range(160)])
    assert sum(one.records for one in rows if one.audit_id == "34") == sum(range(161))


def test_what_audit_has_no_place_for_is_left_out() -> None:
    rows: list[Row] = []
    corrected = row(HOUR, 3, -3)
    with audit_proxy(rows, []) as port:
        AuditReporter(f"127.0.0.1:{port}").report(
            [row(None, 1), row(HOUR, 1, stream=None), row(HOUR, -2, 2), corrected]
        )
    assert counts(rows) == {("clicks", "34", ms(HOUR)): 1}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_proxy_that_is_down_stops_nothing_and_gets_all_later(caplog: pytest.LogCaptureFixture) -> None:
    rows: list[Row] = []
    with audit_proxy([], []) as port:
        pass
    clock = Clock()
    reporter = AuditReporter(f"127.0.0.1:{port}", clock)
    for number in range(3):
        reporter.report([row(HOUR, 1, sequence=number)])
    [told] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert f"127.0.0.1:{port} did not take a report" in told.getMessage()
    with audit_proxy(rows, [], port):
        reporter.report([row(HOUR, 1, sequence=3)])
        assert not rows  # it is not tried in each round
        clock.now = 61
        reporter.report([])
        assert counts(rows)["clicks", "34", ms(HOUR)] == 4
        reporter.report([row(HOUR, 1, sequence=4)])
        assert counts(rows)["clicks", "34", ms(HOUR)] == 5  # and again in each round
    [_, again] = caplog.records
    assert "have all reports again" in again.getMessage()


def test_what_is_kept_is_bounded_and_what_was_given_up_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inlong_audit, "_MOST_KEPT", 2)
    rows: list[Row] = []
    with audit_proxy(rows, [FAIL]) as port:
        reporter = AuditReporter(f"127.0.0.1:{port}")
        for number in range(4):
            reporter.report([row(HOUR, 1, sequence=number)])
        assert reporter.flush() == 0
    assert sorted({one.packet for one in rows}) == [2, 3]
    assert "writing data error" in caplog.records[0].getMessage()
    assert "2 reports before them were given up" in caplog.records[-1].getMessage()


def test_another_proxy_takes_what_the_first_does_not() -> None:
    rows: list[Row] = []
    with audit_proxy([], [FAIL] * 9) as first, audit_proxy(rows, []) as second:
        reporter = AuditReporter(f"127.0.0.1:{first},127.0.0.1:{second}")
        reporter.report([row(HOUR, 1)])
    assert counts(rows)["clicks", "34", ms(HOUR)] == 1


def test_a_proxy_that_does_not_answer_holds_a_round_up_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlong_audit, "_SECONDS", 0.3)
    with audit_proxy([], [SILENT]) as port:
        reporter = AuditReporter(f"127.0.0.1:{port}")
        begin = time.monotonic()
        reporter.report([row(HOUR, 1)])
        assert time.monotonic() - begin < 15
        assert reporter.flush() == 0


@pytest.mark.parametrize(
    "address", ["", "audit", "audit:", "audit:x", "user:pw@audit:1", "pw@audit", "audit:99999", ",", "a:1,b"]
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigurationError, match="audit-proxies") as raised:
        AuditReporter(address)
    assert "pw" not in str(raised.value)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no zone"):
        AuditReporter("127.0.0.1:1").report([row(datetime(2026, 11, 21, 10), 1)])
