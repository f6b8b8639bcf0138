"""`tubeclient produce` on an embedded cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.tubeclient_cli.clusters import ClusterCommands
from tests.waiting import wait_for
from tubeclient import ClientSettings, Message, Producer, PullConsumer
from tubeclient.wire.message_time import message_time_ms
from tubeclient.wire.methods import Method
from tubeclient_cli.produce.sending import Sending, parser_of


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as running:
        yield running


@pytest.fixture
def cluster(tube: EmbeddedTubeMQ) -> ClusterCommands:
    return ClusterCommands.of(tube)


def messages(settings: ClientSettings, count: int) -> list[Message]:
    found: list[Message] = []
    with PullConsumer(settings, "judge", ["clicks"], start_from="earliest") as consumer:
        while len(found) < count:
            delivery = consumer.get(timeout_ms=10_000)
            assert delivery is not None
            found += delivery.messages
            consumer.confirm(delivery)
    return found


def test_lines_of_standard_input_and_of_a_file(cluster: ClusterCommands, tmp_path: Path) -> None:
    all_have = ("--tag", "web", "--attribute", "a=1")
    said = cluster.text("produce", "clicks", *all_have, given=b"\xef\xbb\xbfone\n\r\ntwo\r\nthree")
    assert said == "3 messages acknowledged\n"
    (tmp_path / "more").write_bytes(b'{"value": "four", "tag": "phone", "time": "202611231030"}\n')
    said = cluster.text("produce", "clicks", "--format", "json", "--file", str(tmp_path / "more"))
    assert said == "1 message acknowledged\n"
    found = messages(cluster.settings, 4)
    assert [one.body for one in found] == [b"one", b"two", b"three", b"four"]
    assert [(one.tag, one.attributes) for one in found[2:]] == [("web", {"a": "1"}), ("phone", {})]
    assert found[3].time == "202611231030"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_messages_have_their_minute(cluster: ClusterCommands, zone: str) -> None:
    """Messages carry the minute in which they were sent, in the given time zone."""
    began = datetime.now(UTC) - timedelta(minutes=1)
    where = [] if zone == "UTC" else ["--time-zone", zone]
    cluster.text("produce", "clicks", *where, given=b"line")
    cluster.text("produce", "clicks", "--format", "json", *where, given=b'{"value": "json"}')
    times = [message_time_ms(one.time, ZoneInfo(zone)) for one in messages(cluster.settings, 2)]
    ended = datetime.now(UTC)
    assert all(time is not None and began.timestamp() <= time / 1000 <= ended.timestamp() for time in times)
    # So they are found by their time.
    for start, found in ((began, ["line", "json"]), (ended + timedelta(hours=1), [])):
        words = ("consume", "clicks", "--from", start.isoformat(), *where)
        assert cluster.text(*words).splitlines() == found


@pytest.mark.parametrize("source", ["standard input", "a file"])
def test_lines_are_counted_as_an_editor_does(cluster: ClusterCommands, tmp_path: Path, source: str) -> None:
    lines = b'\n{"value": "a"}\n\n\n{"valu": 1}\n{"value": "c"}\n\nx'
    (tmp_path / "lines").write_bytes(lines)
    where = ["--file", str(tmp_path / "lines")] if source == "a file" else []
    done = cluster.run("produce", "clicks", "--format", "json", *where, given=lines)
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" line 5", " line 8"]
    assert done.stdout == "2 messages acknowledged; 2 failed\n"


def test_a_message_that_is_too_long_is_a_failed_line(cluster: ClusterCommands) -> None:
    done = cluster.run("produce", "clicks", given=b"a\n" + b"x" * (2 << 20) + b"\nb\n")
    assert done.exit_code == 1
    assert "line 2: [INVALID_SETTING] a message of 2097178 bytes, attributes included" in done.stderr
    assert "2 messages acknowledged" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["produce", "klicks"], "[TOPIC_NOT_FOUND] the cluster has no topic klicks; did you mean clicks?"),
        (["produce", "clicks", "--time-zone", "Moon"], "'Moon' is not a time zone"),
        (["produce", "clicks", "--file", "/no/such"], "--file /no/such cannot be read: No such file or directory"),
        (["produce", "clicks", "--format", "csv"], "--format is 'csv'; write lines or json"),
        (["produce", "clicks", "--attribute", "a"], "--attribute takes NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_one_line(cluster: ClusterCommands, words: list[str], said: str) -> None:
    assert said in cluster.error(*words)


def test_a_cluster_that_goes_away_stops_the_rest(tube: EmbeddedTubeMQ) -> None:
    """So a file is not read to its end with an error, and a wait, for each line."""
    settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port, retry_limit_ms=300)
    told: list[str] = []
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        sending = Sending(producer, parser_of("lines", "clicks", "", {}, UTC), told.append)

        def lines() -> Iterator[bytes]:
            yield b"one\n"
            tube.broker_faults(1).force(Method.SEND_MESSAGE, 503, times=100_000)
            for _ in range(100_000):
                yield b"more\n"

        sending.send_all(lines())
    assert sending.stopped_by is not None
    assert sending.read < 100_000
    assert sending.acknowledged + sending.failed == sending.read
    assert told[0].startswith(f"line {sending.next_line:,}: ")


def test_ctrl_c_sends_what_was_read(tube: EmbeddedTubeMQ) -> None:
    settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)

    def lines() -> Iterator[bytes]:
        yield b"one\n"
        raise KeyboardInterrupt

    with Producer(settings) as producer:
        producer.publish(["clicks"])
        sending = Sending(producer, parser_of("lines", "clicks", "", {}, UTC), pytest.fail)
        sending.send_all(lines())
    assert (sending.acknowledged, sending.is_complete) == (1, False)
    assert sending.summary().endswith("; stopped after line 1, continue from line 2")


def test_sigterm_is_told_with_what_was_sent(tube: EmbeddedTubeMQ, cluster: ClusterCommands) -> None:
    command = [sys.executable, "-m", "tubeclient_cli.app", "produce", "clicks", *cluster.where]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n" * 5_000)
        process.stdin.flush()
        wait_for(lambda: tube.bounds("clicks").max_offset > 0, "the first message")
        process.terminate()
        said, wrong = process.communicate(timeout=30)
    assert (process.returncode, wrong) == (1, b"")
    assert b" messages acknowledged; stopped after line " in said
    assert b", continue from line " in said


def test_unreadable_input(cluster: ClusterCommands) -> None:
    """The command says where to go on if the input cannot be read."""
    done = cluster.run("produce", "clicks", "--file", "/proc/self/mem")
    assert done.exit_code == 1
    assert done.stderr == "tubeclient produce: the input cannot be read after line 0: Input/output error\n"
    assert "stopped after line 0, continue from line 1" in done.stdout
