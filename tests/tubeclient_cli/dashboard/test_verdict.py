"""The verdict on a group with its reason."""

from __future__ import annotations

from dataclasses import replace

from offsets_store.health import Verdict
from tests.tubeclient_cli.dashboard.world import NOW_MS, broker, cluster, group, key, member, read
from tubeclient.keys import StoreBounds, StoreKey
from tubeclient_cli.dashboard.facts import ClusterFacts, Facts, GroupFacts, Waits, waits_of
from tubeclient_cli.dashboard.partitions import partition_states
from tubeclient_cli.dashboard.verdict import judge_group

HOUR_MS = 3_600_000


def judged(some: GroupFacts, there: ClusterFacts | None = None, waits: Waits | None = None) -> tuple[Verdict, str]:
    return judge_group(some, partition_states(some, there), Facts(NOW_MS, (), (some,), there, None, waits or {}))


def test_a_group_with_nothing_to_read_is_well() -> None:
    assert judged(group(read(key(0), 5, 5))) == (Verdict.OK, "nothing was left to read at its last commit")
    there = cluster(ends={StoreKey(1, "clicks", 0): StoreBounds(0, 5 * 28)})
    assert judged(group(read(key(0), 5, 5)), there) == (Verdict.OK, "nothing to read")


def test_a_group_that_has_stopped_says_where_and_who_is_there() -> None:
    some = group(read(key(0), 10, 10), read(key(10_000), 3, 10), at_ms=NOW_MS - HOUR_MS)
    ends = {StoreKey(1, "clicks", n): StoreBounds(0, 280) for n in (0, 1)}
    text = "1 of 2 partitions, such as 1:clicks:10000: no commit for 60 min while 7 messages wait"
    assert judged(some) == (Verdict.STOP, text)
    assert judged(some, cluster(ends=ends)) == (Verdict.STOP, f"{text}; the master knows no client of the group")
    there = cluster(ends=ends, members={"clicks_etl": (member(0), member(1))})
    assert judged(some, there) == (Verdict.STOP, f"{text}; clients at the master: 2")


def test_the_end_of_now_counts_and_not_that_of_the_commit() -> None:
    there = cluster(ends={StoreKey(1, "clicks", 0): StoreBounds(0, 280)})
    verdict, sentence = judged(group(read(key(0), 5, 5), at_ms=NOW_MS - HOUR_MS), there)
    assert verdict is Verdict.UNKNOWN
    assert "unknown since when 5 messages wait" in sentence


def test_a_silent_group_has_stopped_once_messages_were_seen_to_wait_for_long() -> None:
    there = cluster(ends={StoreKey(1, "clicks", 0): StoreBounds(0, 280)})
    some = group(read(key(0), 5, 5), at_ms=NOW_MS - HOUR_MS)
    waits = waits_of({}, [some], there, NOW_MS - HOUR_MS // 2)
    waits = waits_of(waits, [some], there, NOW_MS)
    assert judged(some, there, waits) == (
        Verdict.STOP,
        "1:clicks:0: no commit for 30 min while 5 messages wait; the master knows no client of the group",
    )
    # It reads them, and others come.
    moved = group(read(key(0), 10, 10), at_ms=NOW_MS - HOUR_MS)
    assert waits_of(waits, [moved], there, NOW_MS) == {}
    more = cluster(ends={StoreKey(1, "clicks", 0): StoreBounds(0, 308)})
    assert judged(moved, more, waits_of(waits, [moved], more, NOW_MS - 60_000))[0] is Verdict.OK


def test_a_position_beyond_what_the_broker_has_is_a_stop() -> None:
    there = cluster(ends={StoreKey(1, "clicks", 0): StoreBounds(0, 2 * 28)})
    verdict, sentence = judged(group(read(key(0), 5, 5), at_ms=NOW_MS - HOUR_MS), there)
    assert verdict is Verdict.STOP
    assert "position 140 is 3 messages beyond the last message that its broker has" in sentence


def test_a_position_in_a_store_that_was_made_anew_and_never_written_to_is_a_stop() -> None:
    verdict, sentence = judged(group(read(key(0), 5, 5), at_ms=NOW_MS - HOUR_MS), cluster(broker(1)))
    assert verdict is Verdict.STOP
    assert "position 140 is 5 messages beyond the last message that its broker has" in sentence


def test_what_a_silent_broker_has_is_not_judged_by_its_old_end() -> None:
    some = group(read(key(0), 3, 10), at_ms=NOW_MS - HOUR_MS)
    verdict, sentence = judged(some, cluster(broker(1, "refused")))
    assert verdict is Verdict.UNKNOWN
    assert "its broker does not tell" in sentence


def test_topics_that_the_group_read_earlier_are_not_judged() -> None:
    verdict, sentence = judged(replace(group(read(key(0), 3, 10)), past=None))
    assert verdict is Verdict.UNKNOWN
    assert "reads other topics" in sentence
