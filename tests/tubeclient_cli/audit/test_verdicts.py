"""Which hours are whole, open, at the job's begin, or lack records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tubeclient_cli.audit.verdicts import ALL_STREAMS, HOUR, Hour, State, by_hour, judged

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
LONG_AFTER, LONG_BEFORE = TEN + 10 * HOUR, TEN - 10 * HOUR


@pytest.mark.parametrize(
    ("received", "first_to", "newest", "state", "missing"),
    [
        (100, LONG_BEFORE, LONG_AFTER, State.COMPLETE, 0),
        (130, LONG_BEFORE, LONG_AFTER, State.COMPLETE, 0),  # DataProxy sent some twice
        (99, LONG_BEFORE, LONG_AFTER, State.MISSING, 1),
        (99, LONG_BEFORE, TEN + 2 * HOUR, State.MISSING, 1),
        (99, LONG_BEFORE, TEN + 2 * HOUR - timedelta(minutes=1), State.OPEN, 1),
        (0, LONG_BEFORE, TEN - HOUR, State.OPEN, 100),
        (0, LONG_BEFORE, None, State.OPEN, 100),
        (40, TEN, LONG_AFTER, State.FIRST, 60),
        (40, TEN + 3 * HOUR, LONG_AFTER, State.FIRST, 60),
        (40, TEN - timedelta(minutes=1), LONG_AFTER, State.MISSING, 60),
        (40, None, LONG_AFTER, State.MISSING, 60),
    ],
)
def test_an_hour_of_which_dataproxy_sent_a_hundred(
    received: int, first_to: datetime | None, newest: datetime | None, state: State, missing: int
) -> None:
    hours = [Hour("clicks", TEN, received, received, 0)] if received else []
    [line] = judged(hours, {"clicks": {TEN: 100}}, first_to, newest)
    assert (line.state, line.missing, line.state.is_well) == (state, missing, state is not State.MISSING)


@pytest.mark.parametrize("sent", [None, {"clicks": {TEN: 100}}])
def test_received_that_are_neither_written_nor_bad(sent: dict[str, dict[datetime, int]] | None) -> None:
    [line] = judged([Hour("clicks", TEN, 100, 90, 9)], sent, LONG_AFTER, TEN)
    assert line.state is State.UNBALANCED
    assert not line.state.is_well


def test_records_without_a_time_or_a_stream_are_not_asked_of_audit() -> None:
    lines = judged([Hour("clicks", None, 3, 2, 1), Hour(None, TEN, 1, 1, 0)], {"clicks": {}}, TEN, TEN)
    assert [(one.sent, one.state) for one in lines] == [(None, State.COMPLETE)] * 2


def test_a_stream_that_the_table_lacks_is_missing() -> None:
    sent = {"clicks": {TEN: 10}, ALL_STREAMS: {TEN: 14, TEN + HOUR: 0, TEN + 2 * HOUR: 5}}
    sent["clicks"][TEN + 2 * HOUR] = 7  # its rows are of more audit versions than all streams' sum counts
    hours = [Hour("clicks", TEN, 10, 10, 0), Hour("clicks", TEN + 2 * HOUR, 7, 7, 0)]
    lines = judged(hours, sent, LONG_BEFORE, LONG_AFTER)
    assert [(one.hour, one.missing) for one in lines if one.stream == ALL_STREAMS] == [(TEN, 4)]
    assert [one.stream for one in lines if not one.state.is_well] == [ALL_STREAMS]


def test_minutes_make_hours() -> None:
    minutes = {TEN: 1, TEN + timedelta(minutes=59): 2, TEN + HOUR: 4}
    assert by_hour(minutes) == {TEN: 3, TEN + HOUR: 4}
