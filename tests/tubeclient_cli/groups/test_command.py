"""`tubeclient groups` on an embedded cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
        assert text[0] == "reads: 1 clients of 2 nodes, topics clicks"
        assert text[-1] == "held by nobody: 1:clicks:0"
        assert lines(cluster.text("groups", "list"))[-1] == "reads 1 clicks"
        line = cluster.error("groups", "move", "reads", "--to", "earliest", "--yes")
        assert "group reads has 1 clients online" in line
        cluster.text("groups", "move", "reads", "--to", "earliest", "--yes", "--force")


def test_lag(cluster: ClusterCommands) -> None:
    found = cluster.json("groups", "lag", "reads")
    assert found["rowsBehindAtMost"] == 6
    assert found["partitions"] == [
        {"partition": "1:clicks:0", "position": 112, "inFlightBytes": 0, "end": 280, "rowsBehindAtMost": 6}
    ]
    text = lines(cluster.text("groups", "lag", "reads"))
    assert "1:clicks:0 112 0 280 6" in text
    assert text[-1] == "rows behind in all, at most: 6"
    assert "has a position of group nobody" in cluster.error("groups", "lag", "nobody")


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
        assert "group trial has 1 clients online" in cluster.error("groups", "clone", "reads", "trial", "--yes")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["move", "reads", "--to", "yesterday", "--yes"], "--to is 'yesterday'; write earliest"),
        (["move", "reads", "--to", "latest", "--json"], "--json does not prompt; add --yes"),
        (["move", "reads", "--to", "latest", "--topic", "klicks", "--yes"], "klicks"),
        (["move", "reads", "--to", '{"1:clicks:9": 0}', "--yes"], "--to names partition 1:clicks:9, which there is"),
        (["clone", "nobody", "trial", "--yes"], "has a position of group nobody"),
        (["clone", "reads", "reads", "--yes"], "group reads is also the target"),
    ],
)
def test_what_is_wrong_is_one_line(cluster: ClusterCommands, words: list[str], said: str) -> None:
    assert said in cluster.error("groups", *words)
    assert positions(cluster, "reads") == {A: 112}
