"""`tubeclient plan` on an embedded cluster: what it draws, says and leaves alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from spark_source.options.given import parse_options
from tubeclient import ClientSettings, ConfigurationError, TubeError, fetch_view
from tubeclient.admin import Admin, BrokerState
from tubeclient.assignment import STRATEGIES
from tubeclient.keys import MAX_NODES, PartitionKey
from tubeclient.settings import parse_master_servers
from tubeclient.wire.methods import Method
from tubeclient_cli.app import app


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """Eight partitions in two stores, ten messages in the first."""
    topics = [TopicConfig("clicks", stores=2, partitions=4), TopicConfig("orders")]
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), topics) as running:
        running.load("clicks", [NewMessage(n % 4, b"x") for n in range(10)])
        yield running


def run(tube: EmbeddedTubeMQ, *more: str, topic: str = "clicks", source_count: int = 3) -> Result:
    where = ["--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}"]
    return CliRunner().invoke(app, ["plan", *where, "--topic", topic, "--source-count", str(source_count), *more])


def lines(tube: EmbeddedTubeMQ, *more: str) -> list[str]:
    """What it prints, with single blanks; exit code 0."""
    done = run(tube, *more)
    assert done.exit_code == 0, done.output
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def document(tube: EmbeddedTubeMQ, *more: str) -> dict[str, Any]:
    done = run(tube, "--json", *more)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_group_has_as_many_nodes_as_the_source_takes(tube: EmbeddedTubeMQ) -> None:
    done = run(tube, source_count=MAX_NODES + 1)
    assert (done.exit_code, "equal to 10000" in done.stderr) == (2, True)
    with pytest.raises(ConfigurationError, match="from 1 to 10000"):
        parse_options(
            {
                "masterServers": "h",
                "subscribe": "clicks",
                "consumerGroup": "g",
                "sourceCount": str(MAX_NODES + 1),
            }
        )


def test_one_strategy(tube: EmbeddedTubeMQ) -> None:
    head, title, columns, _, *rows = [line for line in lines(tube, "--strategy", "averagely") if line]
    assert head == "8 partitions on 1 broker"
    assert title == "averagely: 2 to 3 partitions per node, at most 1.12 times the mean"
    assert columns == "node partitions rows which"
    assert rows == ["0 3 1:clicks:0-2", "1 3 1:clicks:3, 1:clicks:10000-10001", "2 2 1:clicks:10002-10003"]
    *_, said = lines(tube, "--consumer-group", "etl")
    assert said.startswith("left out: assignment strategy machine_room_nearby needs the hint rooms")


def test_all_strategies_with_what_a_group_has_not_read(tube: EmbeddedTubeMQ) -> None:
    rooms = ["--hints", '{"rooms": {"1": "east"}, "nodeRooms": {"0": "east", "1": "east", "2": "west", "3": "west"}}']
    found = document(tube, "--consumer-group", "etl", *rooms)
    assert found["strategies"].keys() == STRATEGIES.keys() - {"config"}
    assert found["leftOut"].keys() == {"config"}
    names = {f"1:clicks:{store * 10_000 + n}" for store in (0, 1) for n in range(4)}
    for name, strategy in found["strategies"].items():
        nodes = strategy["nodes"]
        assert sorted(key for node in nodes for key in node["partitions"]) == sorted(names), name
        # Ten rows in a store, which each of its four partitions may have.
        assert sum(node["rows"] for node in nodes) == 40
    assert [node["rows"] for node in found["strategies"]["backlog"]["nodes"]] == [20, 10, 10]


def test_rows_that_the_group_has_read_do_not_count(tube: EmbeddedTubeMQ) -> None:
    settings = ClientSettings(parse_master_servers(tube.master_address), master_web_port=tube.master_web_port)
    Admin(settings).set_offsets("reads", {PartitionKey(1, "clicks", n): 28 * (10 - n) for n in range(3)})
    found = document(tube, "--consumer-group", "reads", "--strategy", "config", "--hints", plan_of(range(8)))
    assert [node["rows"] for node in found["strategies"]["config"]["nodes"]] == [0 + 10, 1, 2]


def test_a_broker_that_is_out_of_service_keeps_its_partitions_and_has_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded master takes none out of service; its answer is changed."""
    brokers = Admin.brokers

    def without_the_second(admin: Admin) -> list[BrokerState]:
        return [replace(one, manage_status="offline") if one.info.broker_id == 2 else one for one in brokers(admin)]

    monkeypatch.setattr(Admin, "brokers", without_the_second)
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")], brokers=2) as two:
        two.load("clicks", [NewMessage(0, b"x")] * 7, broker_id=1)
        two.load("clicks", [NewMessage(0, b"x")] * 5, broker_id=2)
        found = document(two, "--consumer-group", "etl", "--strategy", "modulo")
        assert found["strategies"]["modulo"]["nodes"][:2] == [
            {"node": 0, "partitions": ["1:clicks:0"], "rows": 7},
            {"node": 1, "partitions": ["2:clicks:0"], "rows": 0},
        ]


def plan_of(numbers: range) -> str:
    """Partition n of the first store to node n % 3, those of the second to node 0."""
    keys = [f"1:clicks:{n if n < 4 else 10_000 + n - 4}" for n in numbers]
    return json.dumps({"plan": {key: (n % 3 if n < 4 else 0) for n, key in zip(numbers, keys, strict=True)}})


def test_nothing_is_touched(tube: EmbeddedTubeMQ) -> None:
    """No client registers, not even for a moment; the next call that would is the one that fails."""
    tube.master_faults.force(Method.CONSUMER_REGISTER_V2, 500)
    document(tube, "--consumer-group", "etl")
    settings = ClientSettings(parse_master_servers(tube.master_address))
    with pytest.raises(TubeError, match="500"):
        fetch_view(settings, ["clicks"], ["etl-r0"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--strategy", "modulus"], "assignment strategy 'modulus' is unknown; use one of averagely"),
        (["--strategy", "backlog"], "backlog needs the hint lag"),
        (["--strategy", "machine_room"], "needs the hint rooms"),
        (["--hints", "east"], "--hints "),
        (["--hints", '{"room": {}}'], "--hints is "),
        (["--topic", "klicks"], "[TOPIC_NOT_FOUND] the cluster has no topic klicks; did you mean clicks? `tubeclient"),
        (["--option", "masterWebPort"], "--option takes NAME=VALUE"),
        (["--option", "Subscribe=views"], "--option Subscribe has a flag of its own, --topic"),
        (["--option", "sourceCount=9"], "--option sourceCount has a flag of its own, --source-count"),
    ],
)
def test_what_is_wrong_is_one_line(tube: EmbeddedTubeMQ, more: list[str], said: str) -> None:
    done = run(tube, *more)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("tubeclient plan: ")
    assert said in line
