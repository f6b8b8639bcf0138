"""`tubeclient groups` on an embedded cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import typer

from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ, NewMessage, TopicConfig
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tests.tubeclient_cli.clusters import ClusterCommands
from tests.waiting import wait_for
from tubeclient import Admin, PartitionKey, Producer, PullConsumer
from tubeclient.admin.broker import BrokerWeb
from tubeclient_cli.groups import moving

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterCommands]:
    """Ten messages in a store of two partitions; group `reads` has read four of them in the first."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", partitions=2), TopicConfig("views")]) as tube:
        tube.load("clicks", [NewMessage(n % 2, b"x") for n in range(10)])
        commands = ClusterCommands.of(tube)
        Admin(commands.settings).set_offsets("reads", {A: 112})
        yield commands


def positions(cluster: ClusterCommands, group: str) -> dict[PartitionKey, int]:
    return Admin(cluster.settings).group_offsets(group).committed


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_who_holds_what(cluster: ClusterCommands) -> None:
    assert cluster.text("groups", "list") == "no group has clients online\n"
    assert cluster.text("groups", "show", "reads").startswith("group reads has no clients online")
    with PullConsumer(cluster.settings, "reads", ["clicks"], source_count=2, node_id=1) as consumer:
        assert consumer.wait_ready(30_000)
        consumer.rebalance()

        def told() -> bool:
            return bool(cluster.json("groups", "show", "reads")["clients"][0]["partitions"])

        wait_for(told, "the client's report")
        [one] = cluster.json("groups", "show", "reads")["clients"]
        assert (one["nodeId"], one["sourceCount"], one["partitions"]) == (1, 2, [str(B)])
        assert cluster.json("groups", "show", "reads")["heldByNobody"] == [str(A)]
        text = lines(cluster.text("groups", "show", "reads"))
        assert text[0] == "reads: 1 client of 2 nodes, topics clicks"
        assert text[-1] == "held by nobody: 1:clicks:0"
        assert lines(cluster.text("groups", "list"))[-1] == "reads 1 clicks"
        line = cluster.error("groups", "move", "reads", "--to", "earliest", "--yes")
        assert "group reads has 1 client online" in line
        cluster.text("groups", "move", "reads", "--to", "earliest", "--yes", "--force")


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        (["groups", "move", "reads", "--to", "latest", "--yes", "--json"], "group reads was moved at the brokers"),
        (["groups", "clone", "reads", "trial", "--yes", "--json"], "group trial has the positions of reads"),
        (["topics", "create", "new"], "topic new was created"),
        (["topics", "alter", "views", "--partitions", "2", "--json"], "topic views was altered"),
        (["offsets", "reset", "--to", "batch:1", "--yes", "--json"], "the group was reset"),
    ],
)
def test_a_change_whose_output_fails_is_told_to_be_done(
    cluster: ClusterCommands, tmp_path: Path, arguments: list[str], done: str
) -> None:
    if arguments[0] == "offsets":
        uri = str(tmp_path / "offsets")
        run = OffsetsTable(uri, clock_ms=lambda: 1_700_000_000_000).open_run(GroupKey("reads", ["clicks"]), 1)
        for offset in (28, 56):
            run.record([PartitionProgress(A, offset, 280, 0)])
        arguments = [*arguments, "--offsets-table", uri, "--consumer-group", "reads"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tubeclient_cli", *arguments, *cluster.where],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={**os.environ, "TUBECLIENT_MODIFY_TOKEN": DEFAULT_TOKEN},
            check=False,
        )
    assert ended.returncode == 1
    command = " ".join(arguments[:2])
    first, second = ended.stderr.splitlines()
    assert first.startswith(f"tubeclient {command}: {done}")
    assert first.endswith("; standard output does not take it")
    assert second == f"tubeclient {command}: input or output failed: [Errno 28] No space left on device"


def test_groups_that_brokers_or_a_table_know_are_listed_as_offline(cluster: ClusterCommands, tmp_path: Path) -> None:
    admin = Admin(cluster.settings)
    admin.set_offsets("ranges-r0", {A: 28})
    uri = str(tmp_path / "offsets")
    OffsetsTable(uri).open_run(GroupKey("etl", ["views"]), 1).record([PartitionProgress(A._replace(topic="views"), 28)])
    with PullConsumer(cluster.settings, "live", ["clicks"]) as consumer:
        assert consumer.wait_ready(30_000)
        assert [one["group"] for one in cluster.json("groups", "list")["groups"]] == ["live"]
        found = cluster.json("groups", "list", "--offsets-table", uri)["groups"]
        states = {one["group"]: (one["online"], one["topics"], "offsets table" in one["knownTo"]) for one in found}
        assert states == {
            "etl": (False, ["views"], True),
            "live": (True, ["clicks"], False),
            "reads": (False, [], False),
        }
        text = lines(cluster.text("groups", "list", "--all"))
        assert "reads offline 0 unknown brokers" in text
        assert any(line.startswith("live online 1 clicks master") for line in text)
    assert "there is no Delta table at" in cluster.error("groups", "list", "--offsets-table", str(tmp_path / "none"))
    assert "add --offsets-table" in cluster.error("groups", "list", "--storage-option", "a=b")


def test_a_group_that_starts_during_a_long_search_is_refused(
    cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as running:

        def start(*given: Any) -> list[moving.PositionMove]:
            consumer = running.enter_context(PullConsumer(cluster.settings, "reads", ["clicks"]))
            assert consumer.wait_ready(30_000)
            return planned(*given)

        planned = moving.planned
        monkeypatch.setattr(moving, "planned", start)
        assert "has 1 client online" in cluster.run("groups", "move", "reads", "--to", "latest", "--yes").stderr
    assert positions(cluster, "reads")[A] == 112


def test_a_position_beyond_the_end_is_said(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"x")] * 10)
        commands = ClusterCommands.of(tube)
        Admin(commands.settings).set_offsets("reads", {A: 112})
        assert commands.json("groups", "lag", "reads")["beyondEnd"] == []
        tube.truncate("clicks", 56)
        assert commands.json("groups", "lag", "reads")["beyondEnd"] == [str(A)]
        text = " ".join(commands.text("groups", "lag", "reads").split())
    assert "positions beyond the last message of their broker: 1:clicks:0. The topic was made anew" in text


def test_lag(cluster: ClusterCommands) -> None:
    found = cluster.json("groups", "lag", "reads")
    assert found["rowsBehindAtMost"] == 6
    assert found["partitions"] == [
        {"partition": "1:clicks:0", "position": 112, "inFlightBytes": 0, "end": 280, "rowsBehindAtMost": 6}
    ]
    text = lines(cluster.text("groups", "lag", "reads"))
    assert "1:clicks:0 112 0 280 6" in text
    assert text[-2] == "messages behind in all, at most: 6"
    assert "`tubeclient offsets lag` shows the lag of a group with an offsets table" in text[-1]
    said = cluster.error("groups", "lag", "nobody")
    assert "has a position of group nobody" in said
    assert "the offsets table, see `tubeclient offsets`" in said  # most such groups are those of queries


def test_a_move(cluster: ClusterCommands) -> None:
    text = lines(cluster.text("groups", "move", "reads", "--to", "latest", "--dry-run"))
    assert text[0] == "reads, a dry run:"
    assert text[-2:] == ["1:clicks:0 112 280 6 skipped", "1:clicks:1 none 280"]
    assert positions(cluster, "reads") == {A: 112}
    done = cluster.run("groups", "move", "reads", "--to", "latest", given=b"n\n")
    assert (done.exit_code, "nothing was changed" in done.stderr) == (1, True)
    assert positions(cluster, "reads") == {A: 112}
    assert "was moved at the brokers" in cluster.text("groups", "move", "reads", "--to", "latest", given=b"y\n")
    assert positions(cluster, "reads") == {A: 280, B: 280}
    found = cluster.json("groups", "move", "reads", "--to", '{"1:clicks:1": 28}', "--yes")
    assert found == {"group": "reads", "changed": True, "moves": [{"partition": "1:clicks:1", "from": 280, "to": 28}]}
    again = cluster.text("groups", "move", "reads", "--to", '{"1:clicks:1": 28}', "--yes")
    assert again == "group reads has these positions already, nothing moves\n"


def test_a_move_goes_no_further_than_the_brokers_messages(cluster: ClusterCommands) -> None:
    found = cluster.json("groups", "move", "reads", "--to", "2800", "--dry-run")
    assert {move["to"] for move in found["moves"]} == {280}


def test_a_move_to_a_time_and_of_a_group_that_is_new(cluster: ClusterCommands) -> None:
    with Producer(cluster.settings) as producer:
        producer.publish(["views"])
        for hour in (10, 11, 12):
            producer.send("views", b"x", time=f"20261123{hour}00")
    assert "name its topics with --topic" in cluster.error("groups", "move", "new", "--to", "earliest", "--yes")
    found = cluster.json("groups", "move", "new", "--to", "2026-11-23T11:00Z", "--topic", "views", "--yes")
    assert found["moves"] == [{"partition": "1:views:0", "from": None, "to": 28}]


def test_a_clone(cluster: ClusterCommands) -> None:
    Admin(cluster.settings).set_offsets("trial", {B: 28})
    found = cluster.json("groups", "clone", "reads", "trial", "--dry-run")
    assert found == {"group": "trial", "changed": False, "moves": [{"partition": str(A), "from": None, "to": 112}]}
    assert positions(cluster, "trial") == {B: 28}
    assert "group trial has the positions of reads" in cluster.text("groups", "clone", "reads", "trial", "--yes")
    assert positions(cluster, "trial") == {A: 112, B: 28}
    with PullConsumer(cluster.settings, "trial", ["clicks"]) as consumer:
        assert consumer.wait_ready(30_000)
        assert "group trial has 1 client online" in cluster.error("groups", "clone", "reads", "trial", "--yes")


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """The user answers yes, after something happened."""

    def confirm(question: str, **how: bool) -> bool:
        happens()
        return True

    monkeypatch.setattr(typer, "confirm", confirm)


@pytest.mark.parametrize("words", [("move", "reads", "--to", "latest"), ("clone", "other", "reads")])
def test_a_group_that_starts_while_the_question_waits_is_refused(
    cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    Admin(cluster.settings).set_offsets("other", {B: 28})
    with contextlib.ExitStack() as running:

        def start() -> None:
            consumer = running.enter_context(PullConsumer(cluster.settings, "reads", ["clicks"]))
            assert consumer.wait_ready(30_000)

        meanwhile(monkeypatch, start)
        done = cluster.run("groups", *words)
    assert (done.exit_code, "group reads has 1 client online" in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    ("words", "moved", "said"),
    [
        (("move", "reads", "--to", "latest"), "reads", "group reads moved since"),
        (("clone", "reads", "trial"), "reads", "group reads or trial moved since"),
        (("clone", "reads", "trial"), "trial", "group reads or trial moved since"),
    ],
)
def test_positions_other_than_those_shown_are_not_moved(
    cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], moved: str, said: str
) -> None:
    admin = Admin(cluster.settings)
    admin.set_offsets("trial", {A: 28})
    meanwhile(monkeypatch, lambda: admin.set_offsets(moved, {A: 56}))
    done = cluster.run("groups", *words)
    assert (done.exit_code, said in done.stderr, str(A) in done.stderr) == (2, True, True), done.output
    assert positions(cluster, moved)[A] == 56


def test_a_move_by_force_sets_what_was_shown(cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: Admin(cluster.settings).set_offsets("reads", {A: 56}))
    cluster.text("groups", "move", "reads", "--to", "latest", "--force")
    assert positions(cluster, "reads") == {A: 280, B: 280}


@pytest.mark.parametrize("words", [("move", "reads", "--to", "latest"), ("clone", "other", "reads")])
def test_a_group_that_starts_during_the_change_is_told(
    cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    Admin(cluster.settings).set_offsets("other", {B: 28})
    name = "set_offsets" if words[0] == "move" else "clone_offsets"
    change = getattr(Admin, name)
    assert cluster.run("groups", *words, "--dry-run").stderr == ""
    with contextlib.ExitStack() as running:

        def started(*given: Any) -> object:
            consumer = running.enter_context(PullConsumer(cluster.settings, "reads", ["clicks"]))
            assert consumer.wait_ready(30_000)
            return change(*given)

        monkeypatch.setattr(Admin, name, started)
        done = cluster.run("groups", *words, "--yes")
    assert done.exit_code == 0
    assert "warning: group reads came online during the change, with 1 client" in done.stderr


def test_a_target_that_starts_while_the_positions_are_looked_up_is_refused(
    cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as running:

        def start(*given: Any) -> list[moving.PositionMove]:
            consumer = running.enter_context(PullConsumer(cluster.settings, "trial", ["clicks"]))
            assert consumer.wait_ready(30_000)
            return cloned(*given)

        cloned = moving.cloned
        monkeypatch.setattr(moving, "cloned", start)
        assert "has 1 client online" in cluster.run("groups", "clone", "reads", "trial", "--yes").stderr


@pytest.fixture
def handled() -> Iterator[None]:
    """A signal that the command does not handle fails the test, and does not end it."""
    before = {number: signal.signal(number, unhandled) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    after = signal.getsignal(signal.SIGTERM)
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after is unhandled


def unhandled(number: int, frame: FrameType | None) -> None:
    raise AssertionError("the command does not handle the signal")


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_move_that_is_interrupted_says_what_has_moved(
    cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    original = BrokerWeb.set_position

    def interrupted(web: BrokerWeb, group: str, key: PartitionKey, offset: int, user: str) -> int:
        if key == B:
            signal.raise_signal(number)
        return original(web, group, key, offset, user)

    monkeypatch.setattr(BrokerWeb, "set_position", interrupted)
    done = cluster.run("groups", "move", "reads", "--to", "latest", "--yes")
    assert (done.exit_code, "was moved" in done.stdout) == (1, False)
    assert isinstance(done.exception, SystemExit)
    assert done.stderr.splitlines() == [
        "tubeclient groups move: interrupted. Done before the interruption: 1:clicks:0. Not known to be done: "
        "1:clicks:1"
    ]
    assert positions(cluster, "reads") == {A: 280}


@pytest.mark.usefixtures("handled")
def test_a_clone_that_is_interrupted_at_first_has_changed_nothing(
    cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Admin, "clone_offsets", lambda *_: signal.raise_signal(signal.SIGTERM))
    done = cluster.run("groups", "clone", "reads", "trial", "--yes")
    assert (done.exit_code, done.stderr) == (1, "tubeclient groups clone: interrupted. Nothing was changed\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["move", "reads", "--to", "yesterday", "--yes"], "--to is 'yesterday'; write earliest"),
        (["move", "reads", "--to", "latest", "--json"], "--json does not prompt; add --yes"),
        (["move", "reads", "--to", "latest", "--topic", "klicks", "--yes"], "klicks"),
        (["move", "reads", "--to", '{"1:clicks:9": 0}', "--yes"], "--to names partition 1:clicks:9, which there is"),
        (["move", "nobody", "--to", "latest", "--yes"], "`tubeclient offsets reset` for a query with an offsets table"),
        (["clone", "nobody", "trial", "--yes"], "has a position of group nobody"),
        (["clone", "reads", "reads", "--yes"], "group reads is also the target"),
    ],
)
def test_what_is_wrong_is_one_line(cluster: ClusterCommands, words: list[str], said: str) -> None:
    assert said in cluster.error("groups", *words)
    assert positions(cluster, "reads") == {A: 112}
