"""The verdict, by hand-made windows and by properties that hold for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets_store.health import (
    MIN_SILENCE,
    WINDOW,
    GroupHealth,
    PartitionHealth,
    PastPosition,
    Unread,
    Verdict,
    judge,
    unread_in,
)
from tubeclient.keys import PartitionKey, StoreBounds

ROW = 28
A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 1)
BEGAN = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


def commits(*rows: tuple[int, int | None], every_s: float = 10) -> list[PastPosition]:
    """One commit for each (messages read, messages behind; None: unknown)."""
    return [
        PastPosition(BEGAN + n * every_s * SECOND, read * ROW, None if behind is None else (read + behind) * ROW)
        for n, (read, behind) in enumerate(rows)
    ]


def verdict(
    past: Sequence[PastPosition],
    rows: int = 7,
    *,
    after_s: float = 1,
    waiting_s: float | None = None,
    max_silence: timedelta | None = None,
) -> PartitionHealth:
    """With `rows` unread, `after_s` seconds after the last commit; the oldest waits for `waiting_s`."""
    now = past[-1].at + after_s * SECOND
    since = None if waiting_s is None else now - waiting_s * SECOND
    return judge(A, past, Unread(rows, since), now, max_silence=max_silence)


STEADY = commits(*((10 * n, 10) for n in range(WINDOW)))


def test_nothing_to_read_is_ok_whatever_was_before() -> None:
    for past in (commits((9, 5)), commits((9, 5), (1, 13)), commits(*[(9, 5)] * WINDOW)):
        assert verdict(past, 0, after_s=1e6)[1:3] == (Verdict.OK, "nothing to read")


def test_a_lag_that_grows_is_a_warning() -> None:
    found = verdict(commits(*((10 * n, 10 + 5 * n) for n in range(WINDOW))))
    assert found[1:3] == (Verdict.WARN, "the lag never fell over 10 commits: from 10 to 55 messages")


def test_a_lag_that_stays_while_the_group_moves_is_a_group_that_keeps_pace() -> None:
    assert verdict(STEADY)[1:3] == (Verdict.OK, "7 messages to read, and the group keeps pace")


def test_a_position_that_stays_while_the_group_commits_is_a_stall() -> None:
    found = verdict(commits(*((9, 5 + n) for n in range(WINDOW))))
    assert found[1:3] == (Verdict.STALL, "position 252 stayed over 10 commits while 14 messages wait")
    assert verdict(commits(*[(9, 5)] * WINDOW)).verdict is Verdict.STALL


def test_a_position_that_went_back_is_a_rewind_until_it_is_where_it_was() -> None:
    back = commits((8, 4), (10, 2), (3, 9), (9, 4))
    assert verdict(back)[1:3] == (Verdict.REWIND, "position 252 is before 280, where it was")
    assert verdict([*back, *commits((10, 4))]).verdict is Verdict.OK


def test_silence_that_is_longer_than_the_window_is_a_stop() -> None:
    usual_s = (WINDOW - 2) * 60
    slow = commits(*((10 * n, 10) for n in range(WINDOW)), every_s=60)
    assert verdict(slow, after_s=usual_s).verdict is Verdict.OK
    found = verdict(slow, after_s=usual_s + 61)
    assert found[1:3] == (Verdict.STOP, "no commit for 9 min while 7 messages wait")
    # A group that commits every second, or that has one commit, is given some minutes.
    for quick in (commits((1, 9)), commits(*((n, 9) for n in range(WINDOW)), every_s=1)):
        assert verdict(quick, after_s=MIN_SILENCE.total_seconds()).verdict is Verdict.OK
        assert verdict(quick, after_s=MIN_SILENCE.total_seconds() + 1).verdict is Verdict.STOP
    assert verdict(slow, after_s=31, max_silence=30 * SECOND).verdict is Verdict.STOP
    assert verdict(slow, after_s=1e5, max_silence=1e5 * SECOND).verdict is Verdict.OK


def test_silence_of_a_group_that_had_nothing_to_read_counts_from_its_first_unread_message() -> None:
    idle = commits((1, 3), (4, 0))
    assert verdict(idle, after_s=1e6, waiting_s=60).verdict is Verdict.OK
    assert verdict(idle, after_s=1e6, waiting_s=301)[1:3] == (Verdict.STOP, "no commit for 5 min while 7 messages wait")
    unknown = verdict(idle, after_s=3 * 86_400)
    assert unknown.verdict is Verdict.UNKNOWN
    assert unknown.why.startswith("the group has not committed for 3.0 days, and it is unknown since when 7 messages")
    # What was unread at the commit waits since then at least.
    assert verdict(commits((1, 3)), after_s=1e6).verdict is Verdict.STOP


def test_without_the_brokers_answer_or_a_position_nothing_can_be_said() -> None:
    now = STEADY[-1].at
    assert judge(A, STEADY, None, now)[:4] == (
        A,
        Verdict.UNKNOWN,
        "its broker does not tell where its messages end",
        None,
    )
    assert judge(A, [], Unread(3), now)[1:] == (
        Verdict.UNKNOWN,
        "the group has no position in it yet",
        3,
        None,
        None,
    )


def test_only_the_window_counts_and_a_window_of_one_is_refused() -> None:
    past = commits((99, 1), *((10 * n, 10) for n in range(WINDOW)))
    assert verdict(past).verdict is Verdict.OK
    assert judge(A, past, Unread(1), BEGAN, window=WINDOW + 1).verdict is Verdict.REWIND
    with pytest.raises(ValueError, match="a window of 1 commits shows no movement"):
        judge(A, past, Unread(1), BEGAN, window=1)


def test_what_is_unread_lies_behind_the_position_and_what_expired() -> None:
    assert unread_in(StoreBounds(0, 10 * ROW), 3 * ROW) == Unread(7)
    assert unread_in(StoreBounds(5 * ROW, 10 * ROW), 3 * ROW) == Unread(5)
    assert unread_in(StoreBounds(0, 10 * ROW), 11 * ROW) == Unread(0, lost_rows=1)


def test_a_position_beyond_the_brokers_last_message_is_a_stop() -> None:
    past = commits(*((10 * n, 10) for n in range(WINDOW)))
    anew = unread_in(StoreBounds(0, 50 * ROW), past[-1].next_offset)
    now = past[-1].at + 61 * SECOND
    found = judge(A, past, anew, now)
    assert found[1:3] == (
        Verdict.STOP,
        "position 2520 is 40 messages beyond the last message that its broker has: the topic was made anew, or the "
        "broker lost its newest messages",
    )
    # Table and brokers are not read in one moment.
    assert judge(A, past, anew, now - 2 * SECOND).verdict is Verdict.OK


# The group


def test_a_group_is_as_well_as_its_worst_partition() -> None:
    def health(*found: Verdict) -> GroupHealth:
        return GroupHealth.of(
            PartitionHealth(PartitionKey(1, "clicks", n), one, "", n) for n, one in reversed(list(enumerate(found)))
        )

    unknown, ok, *bad = Verdict
    assert bad == [Verdict.WARN, Verdict.REWIND, Verdict.STALL, Verdict.STOP]
    for worse in bad:
        assert health(ok, worse, unknown).verdict is worse
    assert health(Verdict.STOP, Verdict.WARN).verdict is Verdict.STOP
    mixed = health(ok, unknown)
    assert (mixed.verdict, mixed.unjudged, mixed.rows_behind) == (ok, (B,), 1)
    assert [one.partition for one in mixed.partitions] == [A, B]
    assert health(unknown).verdict is unknown
    empty = health()
    assert (empty.verdict, empty.rows_behind) == (ok, None)


# Properties


@st.composite
def pasts(draw: st.DrawFn) -> list[PastPosition]:
    at, found = BEGAN, []
    for _ in range(draw(st.integers(1, 14))):
        at += draw(st.integers(1, 600)) * SECOND
        read = draw(st.integers(0, 6))
        behind = draw(st.none() | st.integers(0, 4))
        found.append(PastPosition(at, read * ROW, None if behind is None else (read + behind) * ROW))
    return found


windows = st.integers(2, 6)
lengths = st.integers(0, 100_000).map(lambda seconds: seconds * SECOND)


@given(pasts(), windows, lengths)
def test_an_idle_group_is_never_sick(past: list[PastPosition], window: int, later: timedelta) -> None:
    assert judge(A, past, Unread(0), past[-1].at + later, window=window).verdict is Verdict.OK


@given(pasts(), windows, lengths, lengths, st.integers(1, 5), st.none() | lengths)
def test_more_silence_never_makes_it_better(
    past: list[PastPosition], window: int, later: timedelta, still: timedelta, rows: int, waiting: timedelta | None
) -> None:
    now = past[-1].at + later
    unread = Unread(rows, None if waiting is None else now - waiting)
    first = judge(A, past, unread, now, window=window).verdict
    second = judge(A, past, unread, now + still, window=window).verdict
    assert second.severity >= first.severity or second is Verdict.UNKNOWN
    assert not (first is Verdict.STOP and second is not Verdict.STOP)
