"""The page's JSON."""

from __future__ import annotations

import json

from tests.tubeclient_cli.dashboard.world import NOW_MS, broker, cluster, commit, facts, group, key, member, read
from tubeclient.keys import StoreBounds, StoreKey
from tubeclient_cli.dashboard.facts import BadRecordFacts, Facts, ReasonFacts, Source
from tubeclient_cli.dashboard.model import dashboard_json, partitions_json

WELL = group(read(key(0), 10, 10), name="well")
BEHIND = group(read(key(0), 3, 10), name="late", at_ms=NOW_MS - 3_600_000)


def test_the_sickest_group_comes_first_and_is_the_one_with_details() -> None:
    found = dashboard_json(facts(WELL, BEHIND), [])
    assert [each["name"] for each in found["groups"]] == ["late on clicks", "well on clicks"]
    assert [*found["details"]] == ["late on clicks"]
    assert found["headline"]["verdict"] != "OK"
    assert found["headline"]["text"].startswith("late on clicks: ")


def test_details_are_of_the_groups_that_are_asked_for() -> None:
    assert [*dashboard_json(facts(WELL, BEHIND), ["well on clicks", "unknown"])["details"]] == ["well on clicks"]
    assert {*dashboard_json(facts(WELL, BEHIND))["details"]} == {"well on clicks", "late on clicks"}


def test_nodes_have_the_hosts_that_the_master_knows() -> None:
    there = cluster(members={"clicks_etl": (member(0), member(1))})
    found = dashboard_json(facts(group(read(key(0), 1, 1, 0), read(key(1), 1, 1, 1)), of_cluster=there))
    assert [node["host"] for node in found["details"]["clicks_etl on clicks"]["nodes"]] == ["worker-0", "worker-1"]
    assert found["groups"][0]["clients"] == 2


def test_a_silent_broker_is_said_with_what_it_has() -> None:
    there = cluster(broker(1, "http://10.0.0.1:8081 refused the connection"), members={"clicks_etl": (member(0),)})
    found = dashboard_json(facts(group(read(key(0), 10, 10)), of_cluster=there))
    assert found["groups"][0]["verdict"] == "UNKNOWN"
    assert found["headline"]["verdict"] == "WARN"
    assert "Broker 1 does not answer." in found["headline"]["text"]
    assert found["brokers"][0]["failure"] == "http://10.0.0.1:8081 refused the connection"
    assert found["details"]["clicks_etl on clicks"]["map"]["levels"] == "s"


def test_before_the_first_answer_and_without_any_group_it_says_so() -> None:
    waiting = Facts(NOW_MS, (Source("offsets table", "s3://lake/o", None, "no answer for 12 s"),), None, None, None)
    found = dashboard_json(waiting)
    assert (found["groups"], found["details"]) == (None, {})
    assert found["headline"] == {"verdict": "UNKNOWN", "text": "offsets table: no answer for 12 s"}
    assert "has no group yet" in dashboard_json(facts())["headline"]["text"]


def test_bad_records_are_counts_without_values() -> None:
    bad_records = BadRecordFacts(7, (ReasonFacts("clicks_etl", "bad", "not JSON", 7, NOW_MS),))
    found = dashboard_json(Facts(NOW_MS, (), (), None, bad_records))["badRecords"]
    assert found == {
        "records": 7,
        "reasons": [{"group": "clicks_etl", "state": "bad", "reason": "not JSON", "records": 7, "newest": NOW_MS}],
    }


def test_a_search_finds_names_and_nodes_worst_first() -> None:
    some = facts(group(*(read(key(n), n, 100, n % 3) for n in range(100))))
    found = partitions_json(some, "clicks_etl on clicks", "clicks:1", most=3)
    assert found is not None
    assert found["found"] == 11
    assert [row["partition"] for row in found["partitions"]] == ["1:clicks:1", "1:clicks:10", "1:clicks:11"]
    of_node = partitions_json(some, "clicks_etl on clicks", "node:2", most=100)
    assert of_node is not None
    assert {row["nodeId"] for row in of_node["partitions"]} == {2}
    assert partitions_json(some, "unknown", "") is None


def test_ten_thousand_partitions_are_few_bytes() -> None:
    rows = [read(key(n, b), n, 2_000, n % 16) for b in range(1, 11) for n in range(1_000)]
    commits = [commit(NOW_MS - 1_000 * n, 10, changed_nodes=n % 2, changes=((0, 1, 1),)) for n in range(1_000)]
    text = json.dumps(dashboard_json(facts(group(*rows, commits=commits)), []), separators=(",", ":"))
    assert len(text) < 100_000


def test_a_silent_broker_is_a_warning_although_all_groups_are_well() -> None:
    there = cluster(
        broker(1), broker(2, "refused"), broker(3, "refused"), ends={StoreKey(1, "clicks", 0): StoreBounds(0, 280)}
    )
    found = dashboard_json(facts(WELL, of_cluster=there))
    assert found["groups"][0]["verdict"] == "OK"
    assert found["headline"]["verdict"] == "WARN"
    assert found["headline"]["text"].endswith("Broker 2 and 1 more do not answer.")


def test_groups_that_are_well_are_counted() -> None:
    other = group(read(key(0), 10, 10), name="other")
    assert dashboard_json(facts(WELL, other))["headline"] == {"verdict": "OK", "text": "2 groups are well."}


def test_a_group_that_nobody_reads_is_named_beside_those_that_are_well() -> None:
    """It had read all, and nothing says when the messages came."""
    idle = group(read(key(0), 10, 10), name="idle", at_ms=NOW_MS - 3_600_000)
    fresh = group(read(key(0), 17, 17), name="fresh")
    ends = {StoreKey(1, "clicks", 0): StoreBounds(0, 17 * 28)}
    there = cluster(ends=ends, members={"fresh": (member(0),)})
    found = dashboard_json(facts(fresh, idle, of_cluster=there))
    assert [each["verdict"] for each in found["groups"]] == ["OK", "UNKNOWN"]
    assert found["headline"]["verdict"] == "WARN"
    assert found["headline"]["text"] == (
        "idle on clicks: 1:clicks:0: the group has not committed for 60 min, and it is unknown since when 7 messages "
        "wait; the master knows no client of the group. 1 group is well."
    )
    there = cluster(ends=ends, members={"fresh": (member(0),), "idle": (member(0),)})
    found = dashboard_json(facts(fresh, idle, of_cluster=there))
    assert found["headline"] == {"verdict": "OK", "text": "1 group is well, 1 cannot be judged."}


def test_a_table_that_cannot_be_read_does_not_make_groups_silent() -> None:
    minute_ms = 60_000
    table = Source("offsets table", "s3://lake/o", NOW_MS - 30 * minute_ms, "no answer for 1800 s")
    some = group(read(key(0), 3, 10), at_ms=NOW_MS - 31 * minute_ms)
    found = dashboard_json(Facts(NOW_MS, (table,), (some,), None, None))
    assert found["groups"][0]["verdict"] == "OK"
    assert found["headline"]["text"].startswith("When the table could last be read: ")
    fresh = Facts(NOW_MS, (table._replace(as_of_ms=NOW_MS, failure=None),), (some,), None, None)
    assert dashboard_json(fresh)["groups"][0]["verdict"] == "STOP"
