"""The page's JSON: partitions, verdicts, series, headline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tubeclient_cli.dashboard.world import NOW_MS, broker, cluster, commits, facts, group, key, member, read
from tubeclient.keys import StoreBounds, StoreKey, TopicLayout
from tubeclient_cli.dashboard.looking import ClusterFacts, GroupFacts, Source
from tubeclient_cli.dashboard.model import dashboard_json, partition_states, series_json

STORE = StoreKey(1, "clicks", 0)
HOUR_MS = 3_600_000
WELL = group(read(key(0), 10, 10), name="well")
LATE = group(read(key(0), 3, 10), name="late", at_ms=NOW_MS - HOUR_MS)


def judged(some: GroupFacts, there: ClusterFacts | None = None, **other: Any) -> tuple[str, str]:
    [found] = dashboard_json(facts(some, of_cluster=there, **other))["groups"]
    return found["verdict"], found["sentence"]


def ends(rows: int) -> dict[StoreKey, StoreBounds]:
    return {STORE: StoreBounds(0, rows * 28)}


def test_the_end_of_now_wins_and_that_of_a_silent_broker_is_the_commits() -> None:
    there = cluster(broker(1), broker(2, "refused"), ends={STORE: StoreBounds(5 * 28, 20 * 28)})
    states = partition_states(group(read(key(0), 3, 10), read(key(0, 2), 3, 4)), there)
    assert [(one.rows_behind, one.expired, one.silent) for one in states] == [(15, 2, False), (1, 0, True)]
    assert [one.rows_behind for one in partition_states(group(read(key(0), 3, 10), read(key(1), 3)), None)] == [7, None]


def test_partitions_that_the_group_has_not_begun_count_from_their_beginning() -> None:
    there = cluster(
        layouts=[TopicLayout("clicks", 1, 2, 2, True), TopicLayout("other", 1, 1, 5, True)],
        ends={STORE: StoreBounds(28, 280)},
    )
    states = partition_states(group(read(key(0), 10)), there)
    # A store that is missing in an answer was never written to.
    assert [(str(state.partition), state.next_offset, state.rows_behind) for state in states] == [
        ("1:clicks:0", 280, 0),
        ("1:clicks:1", None, 9),
        ("1:clicks:10000", None, 0),
        ("1:clicks:10001", None, 0),
    ]


def test_a_store_counts_once_by_its_partition_that_is_furthest_behind() -> None:
    some = group(read(key(0), 3, 10), read(key(1), 8, 10), read(key(10_000), 0, 1))
    assert dashboard_json(facts(some))["groups"][0]["rowsBehind"] == 7 + 1


@pytest.mark.parametrize(
    ("some", "there", "verdict", "sentence"),
    [
        (group(read(key(0), 5, 5)), None, "OK", "nothing was left to read at its last commit"),
        (group(read(key(0), 5, 5)), cluster(ends=ends(5)), "OK", "nothing to read"),
        (LATE, None, "STOP", "1:clicks:0: no commit for 60 min while 7 messages wait"),
        (
            LATE,
            cluster(ends=ends(10)),
            "STOP",
            "1:clicks:0: no commit for 60 min while 7 messages wait; the master knows no client of the group",
        ),
        (
            group(read(key(0), 5, 5), at_ms=NOW_MS - HOUR_MS),
            cluster(ends=ends(2)),
            "STOP",
            "1:clicks:0: position 140 is 3 messages beyond the last message that its broker has: the topic was made "
            "anew, or the broker lost its newest messages",
        ),
        (
            group(read(key(0), 5, 5), at_ms=NOW_MS - HOUR_MS),
            cluster(broker(1)),
            "STOP",
            "1:clicks:0: position 140 is 5 messages beyond the last message that its broker has: the topic was made "
            "anew, or the broker lost its newest messages",
        ),
        (
            LATE,
            cluster(broker(1, "refused"), members={"late": (member(0),)}),
            "UNKNOWN",
            "1:clicks:0: its broker does not tell where its messages end",
        ),
        (WELL._replace(past=None), None, "UNKNOWN", "the group's newest run reads other topics"),
    ],
)
def test_a_group_has_a_verdict_and_a_reason(
    some: GroupFacts, there: ClusterFacts | None, verdict: str, sentence: str
) -> None:
    assert judged(some, there) == (verdict, sentence)


def test_a_silent_group_has_stopped_once_messages_were_seen_to_wait_for_long() -> None:
    some = group(read(key(0), 5, 5), at_ms=NOW_MS - HOUR_MS)
    verdict, sentence = judged(some, cluster(ends=ends(10)))
    assert (verdict, "unknown since when 5 messages wait" in sentence) == ("UNKNOWN", True)
    since = {("clicks_etl", key(0), 140): NOW_MS - HOUR_MS // 2}
    verdict, sentence = judged(some, cluster(ends=ends(10)), waits=since)
    assert (verdict, "no commit for 30 min while 5 messages wait" in sentence) == ("STOP", True)


def test_a_table_that_cannot_be_read_does_not_make_groups_silent() -> None:
    at_ms = NOW_MS - HOUR_MS
    found = dashboard_json(facts(group(read(key(0), 3, 10), at_ms=at_ms), groups_at_ms=at_ms))
    assert found["groups"][0]["verdict"] == "OK"
    assert found["headline"]["text"].startswith("When the table could last be read: ")


def test_the_sickest_group_comes_first_and_has_details_unless_another_is_chosen() -> None:
    found = dashboard_json(facts(WELL, LATE), "unknown")
    assert [each["name"] for each in found["groups"]] == ["late on clicks", "well on clicks"]
    assert found["details"]["name"] == "late on clicks"
    assert found["headline"]["text"].startswith("late on clicks: ")
    assert dashboard_json(facts(WELL, LATE), "well on clicks")["details"]["name"] == "well on clicks"


@pytest.mark.parametrize(
    ("groups", "of_cluster", "failures", "verdict", "text"),
    [
        ((), None, (), "UNKNOWN", "The offsets table has no group yet."),
        ((), None, (Source("offsets table", "/o", "no such bucket"),), "UNKNOWN", "no such bucket"),
        ((WELL, WELL._replace(past=None)), None, (), "OK", "1 group is well, 1 cannot be judged."),
        (
            (WELL,),
            cluster(broker(1), broker(2, "refused"), broker(3, "refused"), ends=ends(10)),
            (),
            "WARN",
            "well on clicks: nothing to read. Not answering: broker 2, 3.",
        ),
    ],
)
def test_the_headline(
    groups: tuple[GroupFacts, ...], of_cluster: ClusterFacts | None, failures: Any, verdict: str, text: str
) -> None:
    found = dashboard_json(facts(*groups, of_cluster=of_cluster, failures=failures))["headline"]
    assert found == {"verdict": verdict, "text": text}


def test_nodes_have_what_they_read_and_the_hosts_that_the_master_knows() -> None:
    there = cluster(members={"clicks_etl": (member(0),)})
    some = group(*(read(key(n), n, 100, n % 2) for n in range(100)))
    details = dashboard_json(facts(some, of_cluster=there))["details"]
    assert [(node["node"], node["host"], node["partitions"]) for node in details["nodes"]] == [
        (0, "worker-0", 50),
        (1, None, 50),
    ]
    assert details["nodes"][0]["which"].startswith("1:clicks:0, 1:clicks:2, ")
    assert len(details["worst"]) == 50


def test_lag_and_rate_over_time_come_from_what_each_commit_wrote() -> None:
    """A commit writes the partitions that moved; the others stay."""
    some = commits(
        (30_000, read(key(0), 0, 10)),
        (30_000, read(key(10_000), 0, 5)),
        (20_000, read(key(0), 8, 20)),
        (10_000, read(key(10_000), 5, 5)),
    )
    assert series_json(some) == {
        "at": [NOW_MS - 30_000, NOW_MS - 20_000, NOW_MS - 10_000],
        "rowsBehind": [15, 17, 12],
        "rowsPerSecond": [None, 0.8, 0.5],
    }
    assert series_json({}) == {"at": [], "rowsBehind": [], "rowsPerSecond": []}
    found = dashboard_json(facts(group(read(key(0), 8, 20), commits=some)))
    assert found["groups"][0]["rowsPerSecond"] == round(13 / 30, 2)
