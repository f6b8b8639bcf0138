"""`tubeclient offsets list` and `show`, on real tables and an embedded cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from offsets_store import GroupKey, OffsetsTable, PartitionProgress, PartRead
from tests.tubeclient_cli.offsets.runner import GROUP, OffsetsCommands, at
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app

ROOT = Path(__file__).resolve().parents[3]
KEY = GroupKey(GROUP, ["clicks"])
# Two stores; the first has two partitions that share its index.
A, B, C, D = (PartitionKey(1, "clicks", number) for number in (0, 1, 10_000, 10_001))


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """Ten messages in each of two stores; the second has lost its first two."""
    topic = TopicConfig("clicks", stores=2, partitions=2)
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [topic]) as running:
        running.load("clicks", [NewMessage(10_000 + n % 2, b"x") for n in range(10)])
        running.expire("clicks", 56, store_id=1)
        running.load("clicks", [NewMessage(n % 2, b"x") for n in range(10)])
        yield running


@pytest.fixture
def offsets(tube: EmbeddedTubeMQ, tmp_path: Path) -> OffsetsCommands:
    return OffsetsCommands(str(tmp_path / "offsets"), tube)


def listed(uri: str, *more: str) -> Result:
    return CliRunner().invoke(app, ["offsets", "list", "--offsets-table", uri, *more])


def test_list_names_the_groups_of_a_table(offsets: OffsetsCommands) -> None:
    missing = listed(offsets.uri)
    assert (missing.exit_code, "there is no Delta table at" in missing.stderr) == (2, True)
    offsets.table.open_run(KEY, 2).record(at({A: 28, B: 56}))
    offsets.table.open_run(GroupKey("new", ["views"]), 1).keep_initial("latest", {A._replace(topic="views"): 28})
    found = json.loads(listed(offsets.uri, "--json").stdout)["groups"]
    assert [(one["consumerGroup"], one["topicSet"], one["partitions"]) for one in found] == [
        (KEY.consumer_group, KEY.topic_set, 2),
        ("new", "views", 1),
    ]
    [head, _, clicks, new] = [" ".join(line.split()) for line in listed(offsets.uri).stdout.splitlines()]
    assert head == "consumer group topic set partitions updated at messages behind at most"
    assert clicks.startswith(f"{KEY.consumer_group} {KEY.topic_set} 2 {found[0]['updatedAt']}")
    assert new.endswith(" -")


def test_list_leaves_out_a_newer_release(offsets: OffsetsCommands) -> None:
    """`list` leaves out a group of a newer release and says so."""
    offsets.table.open_run(KEY, 1).record(at({A: 28}))
    offsets.table.open_run(GroupKey("newer", ["clicks"]), 1).record(at({A: 28}))
    DeltaTable(offsets.uri).update({"rowVersion": "2"}, predicate="\"consumerGroup\" = 'newer'")
    done = listed(offsets.uri)
    assert (done.exit_code, GROUP in done.stdout) == (0, True), done.output
    assert done.stderr.startswith("group 'newer' is left out: the offsets table's rows of group newer have version 2")


def test_group_before_its_first_batch(offsets: OffsetsCommands) -> None:
    """`show` says where a group begins if its first batch is not complete yet."""
    offsets.table.open_run(KEY, 2).keep_initial("latest", {A: 28})
    [shown] = offsets.json("show")["topicSets"]
    assert [(row["partition"], row["nextOffset"], row["reason"]) for row in shown["partitions"]] == [
        ("1:clicks:0", 28, "it begins here; no batch is complete yet")
    ]


def test_show_has_each_partition_and_all_topic_sets(offsets: OffsetsCommands) -> None:
    shared = (PartRead(1, 0, 56), PartRead(0, 56, 280))
    read = PartitionProgress(B, 280, 280, 1, 0, shared, "modulo; backlog taken over")
    offsets.table.open_run(KEY, 2).record([*at({A: 28}), read])
    offsets.table.open_run(GroupKey(GROUP, pattern="cl.*"), 1, force=True).record(at({C: 2800}, None))
    text = offsets.text("show")
    assert "clicks_etl on clicks: commit 1 of 2" in text
    assert "\n1:clicks:0 28 280 9 0 -\n1:clicks:1 280 280 0 1 modulo; backlog taken over\n" in text
    assert "total messages behind, at most: 9\n" in text
    assert "clicks_etl on pattern:cl.*: commit 2 of 2" in text
    assert "\n1:clicks:10000 2800 - - 0 -\n" in text
    found = offsets.json("show")
    assert [(each["topicSet"], each["sequence"], each["messagesBehindAtMost"]) for each in found["topicSets"]] == [
        ("clicks", 1, 9),
        ("pattern:cl.*", 2, None),
    ]
    assert found["topicSets"][0]["partitions"][1] == {
        "partition": "1:clicks:1",
        "nextOffset": 280,
        "endOffset": 280,
        "messagesBehindAtMost": 0,
        "nodeId": 1,
        "startOffset": 0,
        "readers": [
            {"nodeId": 1, "startOffset": 0, "endOffset": 56},
            {"nodeId": 0, "startOffset": 56, "endOffset": 280},
        ],
        "reason": "modulo; backlog taken over",
    }


def test_show_asks_the_brokers_for_the_lag_of_now(offsets: OffsetsCommands) -> None:
    # The first partition of each store is behind; of the second store, the table does not know the other one.
    offsets.table.open_run(KEY, 2).record(at({A: 28, B: 280, C: 28}, 28))
    found = offsets.json("show", *offsets.cluster)["topicSets"][0]
    assert (found["endsAsOf"], found["messagesBehindAtMost"], found["messagesExpiredAtMost"]) == ("now", 17, 1)
    assert [(row["partition"], row["nextOffset"], row["messagesBehindAtMost"]) for row in found["partitions"]] == [
        ("1:clicks:0", 28, 9),
        ("1:clicks:1", 280, 0),
        ("1:clicks:10000", 28, 8),
        ("1:clicks:10001", None, 8),
    ]
    text = offsets.text("show", *offsets.cluster)
    assert text.splitlines()[0].endswith("; ends as of now")
    assert "\n1:clicks:10000 28 280 8 0 -\n1:clicks:10001 - 280 8 - -\n" in text
    assert "\ntotal messages behind, at most: 17\n" in text
    assert "unread messages that the brokers no longer hold, at most: 1" in text


def test_a_lag_above_a_bound_is_exit_code_1(offsets: OffsetsCommands) -> None:
    offsets.table.open_run(KEY, 2).record(at({A: 28, B: 280, C: 56, D: 280}))  # 9 and 8 rows
    assert offsets.run("show", "--max-lag", "17", *offsets.cluster).exit_code == 0
    done = offsets.run("show", "--json", "--max-lag", "16", *offsets.cluster)
    assert (done.exit_code, done.stderr) == (1, "clicks: 17 messages behind, more than --max-lag 16\n")
    assert '"messagesBehindAtMost": 17' in done.stdout
    assert offsets.run("show", "--max-lag", "16").exit_code == 1
    offsets.table.open_run(KEY, 2, force=True).record(at({A: 28}, None))
    assert "add --master-servers" in offsets.run("show", "--max-lag", "5").stderr
    # A position beyond the last message exceeds any.
    offsets.table.open_run(KEY, 2, force=True).record(at({A: 280, B: 308, C: 280, D: 280}))
    done = offsets.run("show", "--max-lag", "1000", *offsets.cluster)
    assert "positions beyond the broker's last message: 1:clicks:1. The topic was recreated" in done.stdout
    assert (done.exit_code, done.stderr) == (1, "clicks: a position is beyond its end\n")
    assert offsets.json("show", *offsets.cluster)["topicSets"][0]["beyondEnd"] == ["1:clicks:1"]


def test_max_silence(offsets: OffsetsCommands) -> None:
    """`show` exits with 1 if the last commit is too old and messages wait."""

    def record(positions: dict[PartitionKey, int]) -> None:
        """Half an hour ago."""
        clock = int(time.time() * 1000) - 1_800_000
        OffsetsTable(offsets.uri, clock_ms=lambda: clock).open_run(KEY, 2, force=True).record(at(positions))

    record({A: 28, B: 280, C: 56, D: 280})
    assert offsets.run("show", "--max-silence", "1h", *offsets.cluster).exit_code == 0
    done = offsets.run("show", "--max-silence", "29m", *offsets.cluster)
    assert done.exit_code == 1
    assert re.fullmatch(r"clicks: no commit for 1,8\d\d s while messages wait\n", done.stderr)
    record({A: 280, B: 280, C: 280, D: 280})
    assert offsets.run("show", "--max-silence", "29m", *offsets.cluster).exit_code == 0
    assert "add --master-servers" in offsets.error("show", "--max-silence", "1h")
    assert "--max-silence is 'soon'" in offsets.error("show", "--max-silence", "soon", *offsets.cluster)


def test_errors_of_the_user_are_one_line(offsets: OffsetsCommands, tmp_path: Path) -> None:
    for command, more in (("show", ()), ("reset", ("--to", "earliest", "--yes"))):
        said = offsets.error(command, *more)
        assert f"there is no Delta table at {offsets.uri}; check --offsets-table. The first batch" in said
    offsets.table.open_run(GroupKey("other", ["clicks"]), 2).record(at({A: 28}))
    assert "has nothing for group clicks_etl; check both names" in offsets.error("show")
    offsets.table.open_run(GroupKey("click_etl", ["clicks"]), 2).record(at({A: 28}))
    assert offsets.error("show").endswith("has nothing for group clicks_etl; did you mean click_etl?")
    offsets.table.open_run(KEY, 2).record(at({A: 28}))
    assert "--option is for the connection to the cluster; add --master" in offsets.error(
        "show", "--option", "masterWebPort=1"
    )
    text = offsets.error("show", *offsets.cluster, "--option", "subscribe=views")
    assert text == "--option subscribe has its own flag, --topic"
    secret = "do-not-print-me"
    text = offsets.error("show", "--storage-option", secret)
    assert "--storage-option takes NAME=VALUE" in text
    assert secret not in text
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    offsets.uri = str(tmp_path / "folder")
    assert "is neither a Delta table nor empty" in offsets.error(
        "show", "--storage-option", f"AWS_SECRET_ACCESS_KEY={secret}"
    )


def test_storage_options(offsets: OffsetsCommands) -> None:
    """The storage options reach the table, and the output has none of their secrets."""
    offsets.uri = "s3://bucket/offsets"
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",  # nothing listens on port 9
        "AWS_ACCESS_KEY_ID": "the-access-id",
        "AWS_SECRET_ACCESS_KEY": "the-secret-key",
        "AWS_REGION": "the-region",
        "AWS_ALLOW_HTTP": "true",
        "max_retries": "0",
    }
    more = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    text = offsets.error("show", *more, code=3)
    assert "could not read the offsets table at s3://bucket/offsets" in text
    # What does not answer is named.
    assert [value for value in options.values() if len(value) > 5 and value in text] == ["http://127.0.0.1:9"]
