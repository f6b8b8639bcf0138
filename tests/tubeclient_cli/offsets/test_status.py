"""`tubeclient offsets status`: each verdict is provoked on a real table and an embedded cluster."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from offsets_store import GroupKey
from tests.spark_source.feed import Feed
from tests.tubeclient_cli.offsets.query import MINUTE_S, Query, minutes_ago
from tests.tubeclient_cli.offsets.runner import GROUP, OffsetsCommands, at
from tests.waiting import wait_for
from tubeclient import Admin, ClientBalanceConsumer, ClientSettings
from tubeclient.keys import PartitionKey
from tubeclient.settings import parse_master_servers
from tubeclient_cli.app import app

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "monitor.md").read_text(encoding="utf-8")
KEY = GroupKey(GROUP, ["clicks"])
DAY_S = 24 * 60 * MINUTE_S
# Ten commits, ten seconds apart, and a moment.
RECENT_S = 101


class Bench:
    """A topic with two partitions, in stores of their own, and a group that reads it."""

    def __init__(self, tube: EmbeddedTubeMQ, folder: Path, still_open: ExitStack) -> None:
        self.tube = tube
        self._open = still_open
        self.feed = Feed.create(tube, "clicks", stores=2, partitions=1)
        self.offsets = OffsetsCommands(str(folder / "offsets"), tube)

    def query(self, began_s_ago: float = RECENT_S) -> Query:
        return self._open.enter_context(closing(Query(self.feed, self.offsets.uri, [A, B], began_s_ago)))

    def status(self, *more: str, code: int) -> dict[str, Any]:
        done = self.offsets.run("status", "--json", *self.offsets.cluster, *more)
        assert (done.exit_code, done.stderr) == (code, "")
        [found] = json.loads(done.stdout)["groups"]
        assert isinstance(found, dict)
        return found

    def verdicts(self, *more: str, code: int) -> list[tuple[str, str]]:
        """The verdict of each partition, and why."""
        return [(one["verdict"], one["why"]) for one in self.status(*more, code=code)["partitions"]]

    def text(self, *more: str, code: int) -> str:
        """What people see, with single blanks."""
        done = self.offsets.run("status", *self.offsets.cluster, *more)
        assert (done.exit_code, done.stderr) == (code, "")
        return "\n".join(" ".join(line.replace("│", " ").split()) for line in done.stdout.splitlines())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with EmbeddedTubeMQ(tmp_path / "tube") as tube, ExitStack() as still_open:
        yield Bench(tube, tmp_path, still_open)


def test_a_group_that_keeps_up_is_well(bench: Bench) -> None:
    query = bench.query()
    for _ in range(10):
        bench.feed.send(6, time=minutes_ago(1))
        assert query.batch() == 6
    bench.feed.send(6, time=minutes_ago(0))
    found = bench.status(code=0)
    assert (found["consumerGroup"], found["topicSet"], found["verdict"]) == (GROUP, "clicks", "OK")
    assert [(one["verdict"], one["why"], one["rowsBehindAtMost"]) for one in found["partitions"]] == [
        ("OK", "3 messages to read", 3)
    ] * 2
    assert bench.text(code=0).splitlines() == [
        "clicks_etl on clicks: OK",
        "partitions that are OK: 2 of 2; the furthest behind has 3 messages to read, at most",
    ]


def test_a_group_that_is_slower_than_its_producers_is_warned_of(bench: Bench) -> None:
    query = bench.query()
    bench.feed.send(8, time=minutes_ago(1))
    assert query.batch({A: 4, B: 3}) == 7
    assert bench.status(code=0)["verdict"] == "OK"  # ten commits are needed
    for _ in range(9):
        bench.feed.send(8, time=minutes_ago(1))
        assert query.batch({A: 4, B: 3}) == 7
    assert bench.verdicts(code=1) == [
        ("OK", "nothing to read"),
        ("WARN", "the lag never fell over 10 commits: from 1 to 10 messages"),
    ]
    text = bench.text(code=1)
    assert text.startswith("clicks_etl on clicks: WARN\n")
    assert "\n1:clicks:10000 WARN 840 10 20" in text
    assert "partitions that are OK: 1 of 2" in text


def test_a_group_that_hangs_has_stopped_though_the_master_knows_it(bench: Bench) -> None:
    bench.feed.send(8, time=minutes_ago(40))
    query = bench.query(30 * MINUTE_S)
    query.batch(2)
    settings = ClientSettings(
        parse_master_servers(bench.tube.master_address), master_web_port=bench.tube.master_web_port
    )
    # Its node is held as a query's is, while its batch hangs.
    with ClientBalanceConsumer(settings, GROUP, ["clicks"], source_count=1, node_id=0):
        assert bench.verdicts(code=1) == [("STOP", "no commit for 30 min while 2 messages wait")] * 2
        text = bench.text(code=1)
        assert text.endswith("the master lists 1 client of the group: it runs, but completes nothing")
    wait_for(lambda: not Admin(settings).group(GROUP).members, "the consumer to leave")


def test_a_group_that_was_killed_has_stopped_and_nobody_holds_it(bench: Bench) -> None:
    bench.feed.send(8, time=minutes_ago(40))
    bench.query(30 * MINUTE_S).batch(2)
    found = bench.status(code=1)
    assert (found["verdict"], found["clients"]) == ("STOP", 0)
    assert bench.text(code=1).endswith("the master lists no client of the group: it has ended, or was killed")
    # A job that comes once an hour is given that time.
    assert bench.status("--max-silence", "1h", code=0)["verdict"] == "OK"


def test_an_idle_group_is_well_and_so_is_one_that_has_just_got_something_to_read(bench: Bench) -> None:
    bench.feed.send(20, time=minutes_ago(3 * 24 * 60))
    assert bench.query(3 * DAY_S).batch() == 20
    assert bench.verdicts(code=0) == [("OK", "nothing to read")] * 2
    bench.feed.send(1, partitions=[0], time=minutes_ago(0))
    assert bench.verdicts(code=0) == [("OK", "1 message to read"), ("OK", "nothing to read")]
    bench.feed.send(1, partitions=[10_000], time=minutes_ago(20))
    assert [one[0] for one in bench.verdicts(code=1)] == ["OK", "STOP"]


def test_messages_without_a_time_leave_a_silent_group_that_had_caught_up_unjudged(bench: Bench) -> None:
    bench.feed.send(20)
    assert bench.query(DAY_S).batch() == 20
    bench.feed.send(1, partitions=[0], time="")
    (verdict, why), other = bench.verdicts(code=3)
    assert (verdict, other) == ("UNKNOWN", ("OK", "nothing to read"))
    assert why.startswith(
        "the group has not committed for 24.0 h, and it is unknown since when 1 message waits: the message"
    )
    assert why.endswith("carries no time")


def test_the_producers_time_zone_counts(bench: Bench) -> None:
    bench.feed.send(2, time=minutes_ago(24 * 60))
    bench.query(DAY_S).batch()
    bench.feed.send(2, time=minutes_ago(-8 * 60 + 20))  # by a clock in Singapore
    for found, why in bench.verdicts(code=3):
        assert found == "UNKNOWN"
        assert re.search(
            r"message waits: the oldest has a time 7\.[67] h ahead of this machine's clock; is time-zone the zone", why
        )
    assert bench.status("--time-zone", "Asia/Singapore", code=1)["verdict"] == "STOP"


def test_a_topic_that_was_made_anew_stops_its_group(bench: Bench) -> None:
    bench.feed.send(8, time=minutes_ago(40))
    bench.query(30 * MINUTE_S).batch()
    bench.tube.delete_topic("clicks")
    bench.tube.create_topic(TopicConfig("clicks", stores=2, partitions=1))
    bench.feed.send(2, time=minutes_ago(1))
    assert (
        bench.verdicts(code=1)
        == [
            (
                "STOP",
                f"position {4 * 28} is 3 messages beyond the last message that its broker has: the topic was made "
                "anew, or the broker lost its newest messages",
            )
        ]
        * 2
    )


def test_rows_of_other_partitions_of_the_store_are_not_unread(tmp_path: Path) -> None:
    first, second = PartitionKey(1, "views", 0), PartitionKey(1, "views", 1)
    with EmbeddedTubeMQ(tmp_path / "tube") as tube:
        feed = Feed.create(tube, "views", stores=1, partitions=2)
        bench = OffsetsCommands(str(tmp_path / "offsets"), tube)
        feed.send(10, partitions=[0], time=minutes_ago(60))
        # As consumers without Spark do, which move a partition only by its own messages.
        with closing(Query(feed, bench.uri, [first, second], 60 * MINUTE_S)) as query:
            query.batch({first: 10})
        [found] = bench.json("status", *bench.cluster)["groups"]
    assert [(one["verdict"], one["why"]) for one in found["partitions"]] == [("OK", "nothing to read")] * 2


def test_a_query_that_completes_no_first_batch_has_stopped(bench: Bench) -> None:
    bench.feed.send(2, time=minutes_ago(40))
    query = bench.query(20 * MINUTE_S)
    query.begin()
    assert bench.verdicts(code=1) == [("STOP", "no commit for 20 min while 1 message waits")] * 2


def test_a_partition_that_the_master_does_not_list_cannot_be_judged(bench: Bench) -> None:
    bench.offsets.table.open_run(KEY, 1).record(at({A: 0, PartitionKey(1, "clicks", 7): 0}, 0))
    (verdict, _), (unlisted, why) = bench.verdicts(code=3)
    assert (verdict, unlisted) == ("OK", "UNKNOWN")
    assert why == "the master does not list it: broker 1 is away, or the topic was deleted"


def test_a_group_that_does_not_exist_is_an_error_with_near_names(bench: Bench) -> None:
    cluster = bench.offsets.cluster
    assert "there is no Delta table at" in bench.offsets.error("status", *cluster)
    for name in ("clicks_etl_2", "views", "click_etl"):
        bench.offsets.table.open_run(GroupKey(name, ["clicks"]), 1).record(at({A: 0}))
    said = bench.offsets.error("status", *cluster)
    assert said.endswith("has nothing of group clicks_etl; did you mean click_etl or clicks_etl_2?")
    assert bench.offsets.error("show", group="nobody").endswith("nothing of group nobody; check both names")
    DeltaTable(bench.offsets.uri).delete()
    said = bench.offsets.error("status", *cluster)
    assert said.endswith("has nothing of group clicks_etl; it has no group yet: a query writes to it when it starts")


def test_all_groups_are_judged_and_the_worst_counts(bench: Bench, tmp_path: Path) -> None:
    bench.feed.send(8, time=minutes_ago(40))
    bench.query(30 * MINUTE_S).batch(2)
    bench.offsets.table.open_run(GroupKey("newer", ["clicks"]), 1).record(at({A: 0}))
    bench.offsets.table.open_run(GroupKey("well", ["clicks"]), 1).record(at({A: 4 * 28, B: 4 * 28}))
    DeltaTable(bench.offsets.uri).update({"rowVersion": "2"}, predicate="\"consumerGroup\" = 'newer'")
    words = ["offsets", "status", "--offsets-table", bench.offsets.uri, *bench.offsets.cluster]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 1, done.output
    assert [(one["consumerGroup"], one["verdict"]) for one in json.loads(done.stdout)["groups"]] == [
        (GROUP, "STOP"),
        ("well", "OK"),
    ]
    assert done.stderr.startswith("newer: [OFFSETS_TABLE_SCHEMA] ")
    words[words.index(bench.offsets.uri)] = str(tmp_path / "none")
    assert "there is no Delta table at" in CliRunner().invoke(app, words).stderr


def test_partitions_of_a_broker_that_is_down_cannot_be_judged_and_the_others_are(tmp_path: Path) -> None:
    there, away = PartitionKey(1, "clicks", 0), PartitionKey(2, "clicks", 0)
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")], brokers=2) as tube:
        feed = Feed(tube, "clicks", [0])
        bench = OffsetsCommands(str(tmp_path / "offsets"), tube)
        feed.send(20, time=minutes_ago(3))
        with closing(Query(feed, bench.uri, [there, away], RECENT_S)) as query:
            query.batch()
        tube.stop_broker(2, clean=False)
        quick = [*bench.cluster, "--option", "retryLimit=1s"]
        done = bench.run("status", "--json", *quick)
        [found] = json.loads(done.stdout)["groups"]
        assert (done.exit_code, found["verdict"], found["unjudged"]) == (3, "OK", ["2:clicks:0"])
        assert found["partitions"][0]["why"] == "nothing to read"
        assert found["partitions"][1]["why"].startswith("broker 2 gave no answer: ")
        # What is known to be bad stands.
        bench.table.open_run(KEY, 1, force=True).record(at({there: 0, away: 0}))
        assert (bench.run("status", *quick).exit_code) == 1
        tube.stop_broker(1, clean=False)
        assert "cannot connect to " in bench.error("status", *quick, code=3)


def test_the_lines_for_cron_and_probes_do_what_the_page_says(bench: Bench, tmp_path: Path) -> None:
    [cron] = re.findall(r"^    \*/5 \* \* \* \* (.*)$", PAGE, re.MULTILINE)
    [probe] = re.findall(r"- >-\n(.*?)\n  periodSeconds", PAGE, re.DOTALL)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "tubeclient"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tubeclient_cli.app "$@"\n')
    command.chmod(0o755)

    def run(line: str) -> tuple[int, str]:
        line = " ".join(line.split()).replace("/lake/_offsets", bench.offsets.uri)
        line = line.replace("--master-servers 10.0.0.1:8715", shlex.join(bench.offsets.cluster))
        environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, timeout=60, env=environment, check=False
        )
        return done.returncode, done.stdout + done.stderr

    bench.feed.send(8, time=minutes_ago(90))
    query = bench.query(40 * MINUTE_S)
    query.batch(2)
    assert run(probe) == (1, "")
    assert ": STOP\n" in run(cron)[1]
    query.batch(after_s=20 * MINUTE_S)
    assert (run(probe), run(cron)) == ((0, ""), (0, ""))
