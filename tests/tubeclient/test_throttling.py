"""Flow-control rules: every text gives rules or one error, and rules give the waits they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tubeclient.errors import ProtocolError
from tubeclient.flows.throttling import NO_RULES, DataLimit, EmptyPolls, FetchPauses, FlowRules, PartitionPace

MIB = 1 << 20
LIMIT = {"start": "08:00", "end": "18:30", "dltInM": 100, "limitInM": 12, "freqInMs": 1_000}
PAUSES = {"normFreqInMs": 10, "filterFreqInMs": 20, "minDataFilterFreqInMs": 30}


def rules(*entries: tuple[int, list[Any]]) -> FlowRules:
    return FlowRules.parse(json.dumps([{"type": kind, "rule": items} for kind, items in entries]))


def limited(**changes: object) -> FlowRules:
    return rules((0, [LIMIT | changes]))


def empty_polls(*pairs: tuple[int, int]) -> FlowRules:
    return rules((1, [{"zeroCnt": count, "freqInMs": pause} for count, pause in pairs]))


# Reading


def test_all_types_of_rules_are_read() -> None:
    text = json.dumps(
        [
            {"type": 0, "rule": [LIMIT, LIMIT | {"start": "00:00", "end": "24:00", "dltInM": 21, "limitInM": 0}]},
            {"type": 1, "rule": [{"zeroCnt": 3, "freqInMs": 300}, {"zeroCnt": 8, "freqInMs": 1_000}]},
            {"type": 2, "rule": [{"start": "12:00", "end": "23:59", "dltStInM": 2, "dltEdInM": 1}]},
            {"type": 3, "rule": [PAUSES]},
        ]
    )
    assert FlowRules.parse(text) == FlowRules(
        (DataLimit(480, 1110, 100 * MIB, 12 * MIB, 1_000), DataLimit(0, 1440, 21 * MIB, 0, 1_000)),
        (EmptyPolls(8, 1_000), EmptyPolls(3, 300)),
        FetchPauses(10, 20, 30),
    )


@pytest.mark.parametrize(
    "text", ["{", "[17]", '[{"type": 1, "rule": [17]}]', '[{"type": 0, "rule": [{"start": "8", "end": "09:00"}]}]']
)
def test_what_cannot_be_read_is_one_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        FlowRules.parse(text)


# What they say


@pytest.mark.parametrize(
    ("minute", "lag", "held"),
    [
        (480, 100 * MIB + 1, True),
        (1110, 100 * MIB + 1, True),
        (480, 100 * MIB, False),
        (479, 1 << 40, False),
        (1111, 1 << 40, False),
    ],
)
def test_data_limit_times(minute: int, lag: int, held: bool) -> None:
    """A data limit applies only at its times and only to readers that are far behind."""
    assert (limited().data_limit(lag, minute) is not None) is held


@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 5_000)), min_size=1, max_size=5, unique_by=lambda pair: pair[0]
    )
)
def test_wait_after_empty_answers(
    pairs: list[tuple[int, int]],
) -> None:
    """The wait after empty answers is that of the highest count reached."""
    found, pace = empty_polls(*pairs), PartitionPace()
    for answers in range(1, 25):
        reached = [pair for pair in pairs if pair[0] <= answers]
        expected = max(reached)[1] if reached else 77.0
        assert pace.after_nothing(found, NO_RULES, 77.0) == expected
        assert pace.empty_answers == answers


def after_messages(pace: PartitionPace, group: FlowRules, default: FlowRules = NO_RULES, **changes: Any) -> float:
    usual: dict[str, Any] = {
        "now_ms": 1_000_000.0,
        "minute": 600,
        "message_bytes": 1_000,
        "lag_bytes": 200 * MIB,
        "filtered": False,
        "near_end": False,
    }
    return pace.after_messages(group, default, **(usual | changes))


def test_the_groups_own_rules_come_before_the_clusters() -> None:
    group, default = empty_polls((3, 300)), empty_polls((1, 100))
    pace = PartitionPace()
    assert [pace.after_nothing(group, default, 1.0) for _ in range(3)] == [1.0, 1.0, 300]
    assert PartitionPace().after_nothing(limited(), default, 1.0) == 100
    assert after_messages(PartitionPace(), rules((3, [PAUSES])), rules((3, [{"normFreqInMs": 99}]))) == 10
    assert after_messages(PartitionPace(), empty_polls((1, 1)), rules((3, [{"normFreqInMs": 99}]))) == 99
    own, clusters = limited(limitInM=0, freqInMs=250), limited(limitInM=0, freqInMs=900, dltInM=30)
    assert after_messages(PartitionPace(), own, clusters) == 250
    assert after_messages(PartitionPace(), own, clusters, lag_bytes=40 * MIB) == 900


@given(
    packs=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 2 * MIB)), min_size=1, max_size=200),
    limit_mib=st.integers(0, 30),
)
@example(packs=[(0, 0), (2_000, 1), (3_000, 87_381)], limit_mib=1)  # a minute that begins with a pack of nothing
def test_wait_of_limited_reader(packs: list[tuple[int, int]], limit_mib: int) -> None:
    """Minutes and windows of 5 s begin with the first pack that comes after the end of the last."""
    found, pace = limited(limitInM=limit_mib), PartitionPace()
    now, minute_end, window_end, in_minute, in_window = 1_000_000.0, 0.0, 0.0, 0, 0
    for gap, size in packs:
        now += gap
        if now >= minute_end:
            minute_end, in_minute = now + 60_000, 0
            window_end, in_window = now + 5_000, 0
        if now >= window_end:
            window_end, in_window = now + 5_000, 0
        in_minute, in_window = in_minute + size, in_window + size
        full = in_minute >= limit_mib * MIB or in_window * 12 >= limit_mib * MIB
        assert after_messages(pace, found, now_ms=now, message_bytes=size) == (1_000 if full else 0)
