"""`tubeclient consume` on an embedded cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_cli.clusters import ClusterCommands
from tests.waiting import has_output, wait_for
from tubeclient import Admin, Producer, UnknownGroup
from tubeclient.inlong import RecordGroup, encode_pack

SECONDS = 30


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """Ten messages in one partition, of two tags and two hours; and twelve in two stores."""
    topics = [
        TopicConfig("clicks"),
        TopicConfig("views", 2, 2),
        TopicConfig("shop"),
        TopicConfig("later"),
        TopicConfig("once"),
    ]
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), topics) as running:
        settings = ClusterCommands.of(running).settings
        with Producer(settings) as producer:
            producer.publish(["clicks", "views", "shop"])
            for number in range(10):
                tag, time = ("even", "odd")[number % 2], f"20261123{10 + number // 5}00"
                producer.send("clicks", b"click %d" % number, tag=tag, time=time, attributes={"n": str(number)})
            for number in range(12):
                producer.send("views", b"view %d" % number)
            origin = {"groupId": "shop", "streamId": "s", "dt": "1"}
            producer.send("shop", encode_pack([RecordGroup(origin, [b"a|1", b"b|2"])], made_ms=1))
        yield running


@pytest.fixture
def cluster(tube: EmbeddedTubeMQ) -> ClusterCommands:
    return ClusterCommands.of(tube)


def documents(cluster: ClusterCommands, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cluster.text("consume", *words, "--json").splitlines()]


def test_everything_is_printed_and_no_position_moves(cluster: ClusterCommands) -> None:
    assert cluster.text("consume", "clicks").splitlines() == [f"click {n}" for n in range(10)]
    assert sorted(cluster.text("consume", "views").splitlines()) == sorted(f"view {n}" for n in range(12))
    with pytest.raises(UnknownGroup):
        Admin(cluster.settings).group_offsets("tubeclient_consume")


def test_json_says_everything_of_a_message(cluster: ClusterCommands) -> None:
    first = documents(cluster, "clicks", "--max-messages", "1")[0]
    assert isinstance(first.pop("messageId"), int)
    assert first == {
        "partition": "1:clicks:0",
        "offset": 0,
        "value": "click 0",
        "tag": "even",
        "time": "202611231000",
        "attributes": {"n": "0"},
    }
    assert [one["offset"] for one in documents(cluster, "clicks")] == [28 * number for number in range(10)]


def test_offsets_of_the_pack(cluster: ClusterCommands) -> None:
    """Messages that are left out, and other partitions of a store, have entries of the index in between."""
    for words in (["clicks", "--tag", "odd"], ["views"]):
        found = documents(cluster, *words)
        assert found
        assert {"offset" in one for one in found} == {False}
        assert all(one["packEnd"] - one["packStart"] > 28 for one in found)
        # From there on the message comes again.
        again = documents(cluster, *words, "--from", str(found[-1]["packStart"]))
        assert found[-1]["value"] in [one["value"] for one in again]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--from", "84"], range(3, 10)),
        (["--from", '{"1:clicks:0": 252}'], range(9, 10)),
        (["--from", "2026-11-23T11:00Z"], range(5, 10)),
        (["--from", "2026-11-23T19:00", "--time-zone", "Asia/Shanghai"], range(10, 10)),
        (["--tag", "odd"], range(1, 10, 2)),
        (["--tag", "odd", "--tag", "even", "-n", "3"], range(3)),
        (["--from", "28000"], range(0)),
    ],
)
def test_where_and_what(cluster: ClusterCommands, words: list[str], numbers: range) -> None:
    assert cluster.text("consume", "clicks", *words).splitlines() == [f"click {n}" for n in numbers]


def test_one_partition_of_several(cluster: ClusterCommands) -> None:
    found = documents(cluster, "views", "--from", '{"1:views:1": 0}')
    assert {one["partition"] for one in found} == {"1:views:1"}
    assert 0 < len(found) < 12


def test_the_message_that_an_error_names(cluster: ClusterCommands) -> None:
    third = documents(cluster, "clicks")[3]
    assert documents(cluster, "clicks", "--message-id", str(third["messageId"])) == [third]


def test_records_that_inlong_packed(cluster: ClusterCommands) -> None:
    assert cluster.text("consume", "shop", "--payload", "inlong").splitlines() == ["a|1", "b|2"]
    first, _ = documents(cluster, "shop", "--payload", "auto")
    assert (first["value"], first["inlong"]) == ("a|1", {"groupId": "shop", "streamId": "s", "dataTimeMs": 1})
    assert first["offset"] == 0
    assert len(documents(cluster, "shop")) == 1
    bad = documents(cluster, "clicks", "--payload", "inlong", "-n", "1")[0]
    assert "is not an InLong pack" in bad["bad"]
    told = cluster.run("consume", "clicks", "--payload", "inlong", "-n", "2")
    assert (told.exit_code, told.stdout) == (0, "click 0\nclick 1\n")
    assert told.stderr.startswith("tubeclient consume: 2 bad messages among them; --json shows what")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["klicks"], "[TOPIC_NOT_FOUND] the cluster has no topic klicks; did you mean clicks? `tubeclient topics"),
        (["clicks", "--from", '{"1:clicks:7": 28}'], "[PARTITION_NOT_FOUND] --from names partition 1:clicks:7"),
        (["clicks", "--from", "yesterday"], "--from is 'yesterday'; write earliest, latest, a time such as 2026"),
        (["clicks", "--from", "29"], "--from"),
        (["clicks", "--from", "latest"], "--from latest ends at once, before any message; add --follow"),
        (["clicks", "--payload", "avro"], "--payload is 'avro'; write raw, inlong or auto"),
        (["clicks", "--time-zone", "Moon"], "Moon"),
    ],
)
def test_what_is_wrong_is_one_line(cluster: ClusterCommands, words: list[str], said: str) -> None:
    assert said in cluster.error("consume", *words)


@contextmanager
def started(cluster: ClusterCommands, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Ended with the block, also by a failure in it."""
    command = [sys.executable, "-m", "tubeclient_cli.app", "consume", *words, *cluster.where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_goes_on_until_a_signal(cluster: ClusterCommands, number: signal.Signals) -> None:
    with started(cluster, "later", "--follow", "--from", "latest") as process:
        printed = process.stdout
        assert printed is not None
        with Producer(cluster.settings) as producer:
            producer.publish(["later"])

            def came() -> bool:
                producer.send("later", b"new")
                return has_output(printed)

            wait_for(came, "the new message")
        process.send_signal(number)
        said = process.communicate(timeout=SECONDS)[1]
        assert (process.returncode, said) == (0, "")


def test_following_prints_each_message_once(cluster: ClusterCommands) -> None:
    with Producer(cluster.settings) as producer, started(cluster, "once", "--follow", "--max-messages", "3") as process:
        printed = process.stdout
        assert printed is not None
        producer.publish(["once"])
        producer.send("once", b"0")
        wait_for(lambda: has_output(printed), "the first message")
        for body in (b"1", b"2"):
            producer.send("once", body)
        assert process.communicate(timeout=SECONDS)[0] == "0\n1\n2\n"


def test_a_closed_pipe_is_a_quiet_end(cluster: ClusterCommands, tmp_path: Path) -> None:
    with Producer(cluster.settings) as producer:
        producer.publish(["views"])
        producer.submit_many("views", [b"x" * 1_000] * 1_000)
        producer.flush()
    with started(cluster, "views") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(SECONDS)) == ("", 0)


def test_the_end_is_not_where_a_broker_stopped(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "half", [TopicConfig("both")], brokers=2) as running:
        for broker_id in (1, 2):
            running.load("both", [NewMessage(0, b"%d" % broker_id)] * 50, broker_id=broker_id)
        running.stop_broker(2)
        half = ClusterCommands.of(running)
        half.where += ["--option", "retryLimit=2s"]
        assert "cannot connect to" in half.error("consume", "both", code=3)
