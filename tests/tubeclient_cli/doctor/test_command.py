"""`tubeclient doctor` on a cluster, without Spark."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tubeclient import Admin
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
    for check in (
        "Java",
        "Python",
        "Spark's Python",
        "packages",
        "Delta's jars",
        "master",
        "master's web port",
        "topics of group etl",
    ):
        assert any(line.startswith(f"OK       {check}: ") for line in lines), check
    assert any(line.startswith("OK       broker: ") for line in lines)
    assert "OK       offsets table: is not there yet" in lines


def test_a_broker_that_is_not_in_service_is_not_asked(tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Admin.brokers
    monkeypatch.setattr(
        Admin, "brokers", lambda admin: [replace(one, manage_status="offline") for one in brokers(admin)]
    )
    found = findings(run(*of_cluster(tube), "--json"))
    assert found["master's web port"]["text"].endswith(" lists 0 brokers in service")
    assert "broker's web port" not in found


def test_a_web_port_of_another_cluster(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "other", [TopicConfig("views")]) as other:
        web_port = f"masterWebPort={other.master_web_port}"
        done = run(*of_cluster(tube), "--option", web_port)
        [mine], [theirs] = tube.broker_addresses.values(), other.broker_addresses.values()
    assert done.exit_code == 1
    text = f"{other.master_web_port} lists {theirs}, and the masters name {mine}: it is another cluster's"
    assert f"PROBLEM  master's web port: {text}" in done.stdout


def test_a_topic_that_is_not_there(tube: EmbeddedTubeMQ) -> None:
    done = run(*of_cluster(tube, "nosuch"), "--json")
    assert done.exit_code == 2, done.output
    found = findings(done)["topics of group etl"]
    assert (found["ok"], found["text"].startswith("[TOPIC_NOT_FOUND] ")) == (False, True)
    lines = run(*of_cluster(tube, "nosuch")).output.splitlines()
    [told] = [number for number, line in enumerate(lines) if "[TOPIC_NOT_FOUND] " in line]
    assert not lines[told + 1].startswith(" "), "the text has its own advice"


def test_reader_groups_that_may_not_read(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks", authorized_groups=frozenset({"etl"}))]) as guarded:
        done = run(*of_cluster(guarded), "--json")
    assert done.exit_code == 2, done.output
    found = findings(done)["topics of group etl"]
    assert (found["ok"], found["text"].startswith("[GROUP_FORBIDDEN] ")) == (False, True)
    assert "group etl-r0 is not authorised for topic clicks" in found["text"]


def test_a_master_that_is_not_there() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        address = f"127.0.0.1:{port}"
        done = run("--master-servers", address, "--option", f"masterWebPort={port}")
    assert done.exit_code == 3, done.output
    assert f"PROBLEM  master: {address} not reached" in done.stdout
    assert "PROBLEM  master's web port: " in done.stdout
    assert done.stdout.splitlines()[-1] == "2 problems"


def test_a_master_that_takes_connections_and_does_not_answer(tube: EmbeddedTubeMQ) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        web = f"masterWebPort={tube.master_web_port}"
        done = run("--master-servers", address, "--option", web, "--option", "rpcTimeout=300ms", "--json")
    assert done.exit_code == 3, done.output
    found = findings(done)
    assert (found["master"]["ok"], found["master's web port"]["ok"]) == (False, True)
    assert f"{address} not reached: [" in found["master"]["text"]
    assert "did not answer" in found["master"]["text"]


def test_a_standby_master_is_well(tube: EmbeddedTubeMQ) -> None:
    where = ("--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}")
    tube.master_faults.standby = True
    try:
        found = findings(run(*where, "--json"))
    finally:
        tube.master_faults.standby = False
    assert (found["master"]["ok"], found["master"]["text"]) == (True, f"{tube.master_address} reached")


def test_a_user_that_the_master_refuses(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")], users={"alice": SECRET}) as guarded:
        web = f"masterWebPort={guarded.master_web_port}"
        done = run("--master-servers", guarded.master_address, "--option", web, "--json")
    assert done.exit_code == 2, done.output
    found = findings(done)["master"]
    assert (found["ok"], found["text"].startswith(f"{guarded.master_address} refuses: [")) == (False, True)


def test_a_web_port_that_is_not_there_is_not_well(tube: EmbeddedTubeMQ) -> None:
    done = run("--master-servers", tube.master_address, "--option", "masterWebPort=1", "--json")
    assert done.exit_code == 1, done.output
    assert {name: one["ok"] for name, one in findings(done).items() if "master" in name} == {
        "master": True,
        "master's web port": False,
    }


def test_a_table_that_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    (tmp_path / "table" / "_delta_log" / "00000000000000000000.json").write_text("{")
    done = run("--offsets-table", str(tmp_path / "table"), "--storage-option", f"secret_key={SECRET}", "--json")
    assert done.exit_code in (2, 3), done.output
    assert not findings(done)["offsets table"]["ok"]
    assert SECRET not in done.output


def test_a_table_whose_storage_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    let_go = threading.Event()
    monkeypatch.setattr("tubeclient_cli.doctor.command._TABLE_SECONDS", 0.01)
    monkeypatch.setattr("offsets_store.OffsetsTable.exists", lambda _: let_go.wait(60))
    try:
        done = run("--offsets-table", str(tmp_path / "table"), "--json")
    finally:
        let_go.set()
    assert done.exit_code == 3, done.output
    assert findings(done)["offsets table"]["text"] == "no answer within 0.01 s"


def test_a_spark_that_does_not_start_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    let_go = threading.Event()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tubeclient_cli.doctor.command._START_SECONDS", 0.01)
    monkeypatch.setattr("tubeclient_cli.common.session.make_session", lambda *_: let_go.wait(60))
    try:
        done = run("--executors", "--json")
    finally:
        let_go.set()
    assert done.exit_code == 3, done.output
    found = findings(done)["Spark"]
    assert found["text"] == "no answer within 0.01 s"
    Path(found["action"].removeprefix("its output is in ")).unlink()


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
