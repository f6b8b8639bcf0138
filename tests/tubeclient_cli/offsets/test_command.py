"""`tubeclient offsets show`, `history` and `lag`, on real tables and an embedded cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from offsets_store import GroupKey, PartitionProgress, PartRead
from tests.tubeclient_cli.offsets.runner import GROUP, OffsetsCommands, at
from tubeclient.keys import PartitionKey

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


def test_show_has_each_partition_and_all_topic_sets(offsets: OffsetsCommands) -> None:
    shared = (PartRead(1, 0, 56), PartRead(0, 56, 280))
    read = PartitionProgress(B, 280, 280, 1, 0, shared, "modulo; backlog taken over")
    offsets.table.open_run(KEY, 2).record([*at({A: 28}), read])
    offsets.table.open_run(GroupKey(GROUP, pattern="cl.*"), 1, force=True).record(at({C: 2800}, None))
    text = offsets.text("show")
    assert "group 'clicks_etl' on clicks: commit 1 of 2" in text
    assert "\n1:clicks:0 unknown 28 280 9 0 -\n" in text
    assert "\n1:clicks:1 0 280 280 0 1 to 56, 0 to 280 modulo; backlog taken over\n" in text
    assert "rows behind at the commit, at most: 9\n" in text
    assert "group 'clicks_etl' on pattern:cl.*: commit 2 of 2" in text
    assert "\n1:clicks:10000 unknown 2,800 unknown unknown 0 -\n" in text
    found = offsets.json("show")
    assert [(each["topicSet"], each["sequence"], each["rowsBehind"]) for each in found["topicSets"]] == [
        ("clicks", 1, 9),
        ("pattern:cl.*", 2, None),
    ]
    assert found["topicSets"][0]["partitions"] == [
        {
            "partition": "1:clicks:0",
            "nextOffset": 28,
            "endOffset": 280,
            "lag": 9,
            "nodeId": 0,
            "startOffset": None,
            "readers": [],
            "reason": None,
        },
        {
            "partition": "1:clicks:1",
            "nextOffset": 280,
            "endOffset": 280,
            "lag": 0,
            "nodeId": 1,
            "startOffset": 0,
            "readers": [
                {"nodeId": 1, "startOffset": 0, "endOffset": 56},
                {"nodeId": 0, "startOffset": 56, "endOffset": 280},
            ],
            "reason": "modulo; backlog taken over",
        },
    ]


def test_history_has_who_moved_what_newest_first(offsets: OffsetsCommands) -> None:
    run = offsets.table.open_run(KEY, 2)
    run.record(at({A: 28}))
    run.record(at({A: 56, B: 28}))
    lines = [line for line in offsets.text("history").splitlines() if "clicks" in line]
    assert len(lines) == 2
    assert lines[0].startswith("2 2 20")
    assert lines[0].endswith("clicks: 1:clicks:0 28 -> 56, 1:clicks:1 - -> 28")
    assert f" {run.epoch} " in lines[0]
    found = offsets.json("history", "--limit", "1")
    [commit] = found["commits"]
    assert (commit["sequence"], commit["version"], commit["runEpoch"]) == (2, 2, run.epoch)
    assert commit["moves"] == [
        {"partition": "1:clicks:0", "from": 28, "to": 56, "rowsAtMost": 1},
        {"partition": "1:clicks:1", "from": None, "to": 28, "rowsAtMost": None},
    ]


def test_lag_asks_the_brokers(offsets: OffsetsCommands) -> None:
    # The first partition of each store is behind; of the second store, the table does not know the other one.
    offsets.table.open_run(KEY, 2).record(at({A: 28, B: 280, C: 28}, 28))
    found = offsets.json("lag", *offsets.cluster)["topicSets"][0]
    assert (found["asked"], found["asOf"]) == ("brokers", "now")
    assert found["stores"] == {"1:clicks:0": 9, "1:clicks:1": 8}
    assert (found["rowsBehindAtMost"], found["rowsExpiredAtMost"]) == (17, 1)
    assert [(row["partition"], row["nextOffset"], row["rowsBehindAtMost"]) for row in found["partitions"]] == [
        ("1:clicks:0", 28, 9),
        ("1:clicks:1", 280, 0),
        ("1:clicks:10000", 28, 8),
        ("1:clicks:10001", None, 8),
    ]
    text = offsets.text("lag", *offsets.cluster)
    assert text.startswith("clicks, as of now\n")
    assert "\n1:clicks:10000 28 280 8\n1:clicks:10001 unknown 280 8\n" in text
    assert "\nrows behind in all, at most: 17\n" in text
    assert "unread rows that the brokers no longer hold, at most: 1" in text


def test_lag_without_brokers_is_that_of_the_last_commit_and_says_so(offsets: OffsetsCommands) -> None:
    offsets.table.open_run(KEY, 2).record(at({A: 28, B: 140}, 168))
    text = offsets.text("lag")
    assert "as of the group's last commit, 20" in text.splitlines()[0]
    assert text.splitlines()[0].endswith("; brokers were not asked")
    assert "\nrows behind in all, at most: 5" in text
    found = offsets.json("lag")["topicSets"][0]
    assert (found["asked"], found["stores"], found["rowsBehindAtMost"]) == ("table", {"1:clicks:0": 5}, 5)


@pytest.mark.parametrize("command", ["show", "history", "lag", "reset"])
def test_where_there_is_no_table_is_said(offsets: OffsetsCommands, command: str) -> None:
    more = ["--to", "earliest", "--yes"] if command == "reset" else []
    said = f"there is no Delta table at {offsets.uri}; check --offsets-table. The first batch of a query"
    assert said in offsets.error(command, *more)
    assert not Path(offsets.uri).exists()
    Path(offsets.uri).write_text("no folder")
    assert f"{offsets.uri} is a file; name a new or empty folder as the offsets table" in offsets.error(command, *more)


def test_errors_of_the_user_are_one_line(offsets: OffsetsCommands, tmp_path: Path) -> None:
    offsets.table.open_run(GroupKey("other", ["clicks"]), 2).record(at({A: 28}))
    assert "has nothing of group clicks_etl; check both names" in offsets.error("show")
    assert "has nothing of group clicks_etl; check both names" in offsets.error("history")
    assert "nothing of group clicks_etl; check both names" in offsets.error("lag")
    offsets.table.open_run(KEY, 2).record(at({A: 28}))
    assert "--option is for the connection to the cluster; add --master" in offsets.error(
        "lag", "--option", "masterWebPort=1"
    )
    text = offsets.error("lag", *offsets.cluster, "--option", "subscribe=views")
    assert text == "--option subscribe has a flag of its own, --topic"
    secret = "do-not-print-me"
    text = offsets.error("show", "--storage-option", secret)
    assert "--storage-option takes NAME=VALUE" in text
    assert secret not in text
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    offsets.uri = str(tmp_path / "folder")
    assert "is not a Delta table" in offsets.error("show", "--storage-option", f"AWS_SECRET_ACCESS_KEY={secret}")


def test_the_storage_options_reach_the_table_and_are_not_printed(offsets: OffsetsCommands) -> None:
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
    assert [value for value in options.values() if len(value) > 5 and value in text] == []


def test_the_command_of_its_own_process(offsets: OffsetsCommands) -> None:
    offsets.table.open_run(KEY, 2).record(at({A: 28}))
    command = [sys.executable, "-m", "tubeclient_cli.app", "offsets", "lag", "--offsets-table", offsets.uri]
    command += ["--consumer-group", GROUP, *offsets.cluster]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows behind in all, at most: 18" in done.stdout
