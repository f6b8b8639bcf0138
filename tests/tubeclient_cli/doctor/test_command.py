"""`tubeclient doctor` on a cluster, without Spark."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tubeclient_cli.app import app

SECRET = "hunter2-hunter2"


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [TopicConfig("clicks", partitions=2)]) as cluster:
        yield cluster


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def of_cluster(tube: EmbeddedTubeMQ, topic: str = "clicks") -> tuple[str, ...]:
    reach = ("--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}")
    return (*reach, "--consumer-group", "etl", "--topic", topic)


def findings(done: Result) -> dict[str, dict[str, Any]]:
    document = json.loads(done.stdout)
    return {one["check"]: one for one in document["findings"]}


def test_a_machine_and_a_cluster_that_are_well(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    done = run(*of_cluster(tube), "--offsets-table", str(tmp_path / "none"))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "all is well"
    lines = [line for line in done.stdout.splitlines()[:-1] if not line.startswith(" ")]
    assert all(line.startswith("OK       ") for line in lines), done.stdout
    for check in ("Java", "Python", "packages", "Delta's jars", "master", "master's web port", "topics of group etl"):
        assert any(line.startswith(f"OK       {check}: ") for line in lines), check
    assert any(line.startswith("OK       broker: ") for line in lines)
    assert "OK       offsets table: is not there yet" in lines


def test_a_topic_that_is_not_there(tube: EmbeddedTubeMQ) -> None:
    done = run(*of_cluster(tube, "nosuch"), "--json")
    assert done.exit_code == 2, done.output
    found = findings(done)["topics of group etl"]
    assert (found["ok"], found["text"].startswith("[TOPIC_NOT_FOUND] ")) == (False, True)


def test_a_master_that_is_not_there() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("--master-servers", address)
    assert done.exit_code == 3, done.output
    assert f"PROBLEM  master: {address} not reached" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 problems"


def test_a_table_that_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    (tmp_path / "table" / "_delta_log" / "00000000000000000000.json").write_text("{")
    done = run("--offsets-table", str(tmp_path / "table"), "--storage-option", f"secret_key={SECRET}", "--json")
    assert done.exit_code in (2, 3), done.output
    assert not findings(done)["offsets table"]["ok"]
    assert SECRET not in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--topic", "t"),
        ("--consumer-group", "g", "--topic", "t"),
        ("--master-servers", "a:b"),
        ("--master-servers", "a:1", "--option", "rpcTimeuot=1s"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    [line] = done.stderr.splitlines()
    assert line.startswith("tubeclient doctor: [")
