"""`tubeclient groups` on an embedded cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_cli.clusters import ClusterCommands
from tests.waiting import wait_for
from tubeclient import Admin, PartitionKey, Producer, PullConsumer

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
    assert cluster.text("groups", "show", "reads").startswith("group reads has no clients online")
    with PullConsumer(cluster.settings, "reads", ["clicks"], source_count=2, node_id=1) as consumer:
        assert consumer.wait_ready(30_000)

        def told() -> bool:
            return bool(cluster.json("groups", "show", "reads")["clients"][0]["partitions"])

        wait_for(told, "the client's report")
        [one] = cluster.json("groups", "show", "reads")["clients"]
        assert (one["nodeId"], one["sourceCount"], one["partitions"]) == (1, 2, [str(B)])
        assert cluster.json("groups", "show", "reads")["unowned"] == [str(A)]
        text = lines(cluster.text("groups", "show", "reads"))
        assert text[0] == "reads: 1 client, topics clicks"
        assert "without an owner: 1:clicks:0" in text
        assert "reads 1 clicks" in lines(cluster.text("groups", "list"))
        line = cluster.error("groups", "move", "reads", "--to", "earliest", "--yes")
        assert "group reads has 1 client online" in line
        cluster.text("groups", "move", "reads", "--to", "earliest", "--yes", "--force")


def test_groups_without_clients_are_listed_too(cluster: ClusterCommands) -> None:
    Admin(cluster.settings).set_offsets("ranges-r0", {A: 28})
    with PullConsumer(cluster.settings, "live", ["clicks"]) as consumer:
        assert consumer.wait_ready(30_000)
        found = cluster.json("groups", "list")["groups"]
        assert {one["group"]: (one["clients"], one["topics"]) for one in found} == {
            "live": (1, ["clicks"]),
            "reads": (0, []),
        }
        assert "reads 0 -" in lines(cluster.text("groups", "list"))


def test_positions_at_the_brokers(cluster: ClusterCommands, tmp_path: Path) -> None:
    found = cluster.json("groups", "show", "reads")
    assert (found["messagesBehindAtMost"], found["beyondEnd"], found["clients"]) == (6, [], [])
    assert found["partitions"] == [
        {"partition": "1:clicks:0", "position": 112, "inFlightBytes": 0, "endOffset": 280, "messagesBehindAtMost": 6}
    ]
    text = lines(cluster.text("groups", "show", "reads"))
    assert "1:clicks:0 112 0 280 6" in text
    assert text[-1] == "total messages behind, as of the brokers, at most: 6"
    unknown = cluster.text("groups", "show", "nobody")
    assert "no broker has a position for group nobody; check its name. A query" in unknown
    assert "`tubeclient offsets show`" in unknown
    assert "without one keeps it in its target" in unknown
    with EmbeddedTubeMQ(tmp_path / "other", [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"x")] * 10)
        other = ClusterCommands.of(tube)
        Admin(other.settings).set_offsets("reads", {A: 112})
        tube.inspect(lambda broker: broker.stores.get("clicks", 0).truncate(56))
        assert other.json("groups", "show", "reads")["beyondEnd"] == [str(A)]
        text = lines(other.text("groups", "show", "reads"))
    assert text[-1].startswith("positions beyond the broker's last message: 1:clicks:0. The topic was recreated")


def test_a_move(cluster: ClusterCommands) -> None:
    text = lines(cluster.text("groups", "move", "reads", "--to", "latest", "--dry-run"))
    assert text[0].startswith("group reads, a dry run; messages skipped (below 0: read again)")
    assert text[-2:] == ["1:clicks:0 112 280 6", "1:clicks:1 - 280 -"]
    assert positions(cluster, "reads") == {A: 112}
    done = cluster.run("groups", "move", "reads", "--to", "latest", given=b"n\n")
    assert (done.exit_code, "nothing was changed" in done.stderr) == (1, True)
    assert positions(cluster, "reads") == {A: 112}
    assert "moved group reads on the brokers" in cluster.text("groups", "move", "reads", "--to", "latest", given=b"y\n")
    assert positions(cluster, "reads") == {A: 280, B: 280}
    found = cluster.json("groups", "move", "reads", "--to", '{"1:clicks:1": 28}', "--yes")
    assert found == {
        "group": "reads",
        "changed": True,
        "moves": [{"partition": str(B), "from": 280, "to": 28, "messagesAtMost": -9}],
    }
    again = cluster.text("groups", "move", "reads", "--to", '{"1:clicks:1": 28}', "--yes")
    assert again == "group reads already has these positions, nothing moves\n"


def test_move_past_the_end(cluster: ClusterCommands) -> None:
    """A move past the brokers' messages stops at their end."""
    found = cluster.json("groups", "move", "reads", "--to", "2800", "--dry-run")
    assert {move["to"] for move in found["moves"]} == {280}


def test_a_move_to_a_time_and_of_a_group_that_is_new(cluster: ClusterCommands) -> None:
    with Producer(cluster.settings) as producer:
        producer.publish(["views"])
        for hour in (10, 11, 12):
            producer.send("views", b"x", time=f"20261123{hour}00")
    assert "name its topics with --topic" in cluster.error("groups", "move", "new", "--to", "earliest", "--yes")
    found = cluster.json("groups", "move", "new", "--to", "2026-11-23T11:00Z", "--topic", "views", "--yes")
    assert found["moves"] == [{"partition": "1:views:0", "from": None, "to": 28, "messagesAtMost": None}]


def test_group_starts_during_the_question(cluster: ClusterCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move is refused if the group starts while the user is asked."""
    with contextlib.ExitStack() as running:

        def confirm(question: str, **how: bool) -> bool:
            consumer = running.enter_context(PullConsumer(cluster.settings, "reads", ["clicks"]))
            assert consumer.wait_ready(30_000)
            return True

        monkeypatch.setattr(typer, "confirm", confirm)
        done = cluster.run("groups", "move", "reads", "--to", "latest")
    assert (done.exit_code, "group reads has 1 client online" in done.stderr) == (2, True), done.output
    assert positions(cluster, "reads")[A] == 112


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["move", "reads", "--to", "yesterday", "--yes"], "--to is 'yesterday'; write earliest"),
        (["move", "reads", "--to", "latest", "--json"], "--json does not prompt; add --yes"),
        (["move", "reads", "--to", "latest", "--topic", "klicks", "--yes"], "no topic klicks; did you mean clicks?"),
        (["move", "reads", "--to", '{"1:clicks:9": 0}', "--yes"], "--to names partition 1:clicks:9, which does"),
        (["move", "nobody", "--to", "latest", "--yes"], "`tubeclient offsets reset` for a query with an offsets table"),
    ],
)
def test_what_is_wrong_is_one_line(cluster: ClusterCommands, words: list[str], said: str) -> None:
    assert said in cluster.error("groups", *words)
    assert positions(cluster, "reads") == {A: 112}
