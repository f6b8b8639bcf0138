"""Which hours are whole, at the edge of what the job has read, or lack records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tubeclient_cli.audit.verdicts import HOUR, Hour, judged

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
LONG_AFTER, LONG_BEFORE = TEN + 10 * HOUR, TEN - 10 * HOUR


def bounds(first_to: datetime, newest: datetime) -> list[Hour]:
    """Hours of another stream: up to which the first round, and all, came."""
    return [Hour("views", first_to, 1, 1, 0, 1, first_to), Hour("views", newest, 1, 1, 0, 5, newest)]


@pytest.mark.parametrize(
    ("received", "first_to", "newest", "state", "missing"),
    [
        (100, LONG_BEFORE, LONG_AFTER, "complete", 0),
        (130, LONG_BEFORE, LONG_AFTER, "complete", 0),  # DataProxy sent some twice
        (99, LONG_BEFORE, LONG_AFTER, "missing", 1),
        (99, LONG_BEFORE, TEN + 2 * HOUR, "missing", 1),
        (99, LONG_BEFORE, TEN + 2 * HOUR - timedelta(minutes=1), "edge", 1),
        (0, LONG_BEFORE, TEN - HOUR, "edge", 100),
        (40, TEN, LONG_AFTER, "edge", 60),
        (40, TEN + 3 * HOUR, LONG_AFTER, "edge", 60),
        (40, TEN - timedelta(minutes=1), LONG_AFTER, "missing", 60),
    ],
)
def test_an_hour_of_which_dataproxy_sent_a_hundred(
    received: int, first_to: datetime, newest: datetime, state: str, missing: int
) -> None:
    own = [Hour("clicks", TEN, received, received, 0, 3, TEN)] if received else []
    lines = judged([*own, *bounds(first_to, newest)], {"clicks": {TEN: 100}}, LONG_BEFORE - HOUR)
    [line] = [one for one in lines if one["stream"] == "clicks"]
    assert (line["state"], line["missing"]) == (state, missing)


@pytest.mark.parametrize("sent", [None, {"clicks": {TEN: 100}}])
def test_received_that_are_neither_written_nor_bad(sent: dict[str, dict[datetime, int]] | None) -> None:
    [line] = judged([Hour("clicks", TEN, 100, 90, 9, 1, TEN)], sent, LONG_BEFORE)
    assert (line["state"], line["missing"]) == ("missing", 1)


def test_untimed_records_and_earlier_hours() -> None:
    """Records without a time are not compared with Audit, and hours before --since are left out."""
    hours = [Hour("clicks", None, 3, 2, 1, 1), Hour("clicks", TEN - HOUR, 1, 1, 0, 1, TEN - HOUR)]
    [line] = judged(hours, {"clicks": {TEN - HOUR: 5}}, TEN)
    assert (line["hour"], line["sent"], line["state"]) == (None, None, "complete")


def test_a_table_without_rows_and_what_was_sent() -> None:
    [line] = judged([], {"clicks": {TEN: 5}}, TEN)
    assert line["state"] == "edge"
