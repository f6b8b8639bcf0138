"""`tubeclient doctor`: what is well, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.ports import held_port
from tests.tubeclient_cli.clusters import ClusterCommands
from tubeclient.wire.methods import Method
from tubeclient_cli.app import app
from tubeclient_cli.doctor import _packages

SECRET = "hunter2-hunter2"
GROUP = ("--consumer-group", "etl", "--topic")


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [TopicConfig("clicks", partitions=2)]) as cluster:
        yield cluster


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def problems(code: int, *arguments: str) -> dict[str, str]:
    """By check: the text of each that is not well."""
    done = run(*arguments)
    assert done.exit_code == code, done.output
    lines = [line.partition(": ") for line in done.stdout.splitlines() if line.startswith("PROBLEM  ")]
    return {name.removeprefix("PROBLEM  "): text for name, _, text in lines}


def test_a_machine_and_a_cluster_that_are_well(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    done = run(*ClusterCommands.of(tube).where, *GROUP, "clicks", "--offsets-table", str(tmp_path / "none"))
    assert done.exit_code == 0, done.output
    *lines, last = done.stdout.splitlines()
    checks = ["Java", "Python", "packages", "masters", "masters' web port", "brokers", "topics of group etl"]
    assert [line.partition(": ")[0] for line in lines] == [f"OK       {name}" for name in (*checks, "offsets table")]
    assert (lines[-2].endswith("may read 2 partitions"), last) == (True, "all is well")


@pytest.mark.parametrize(
    ("options", "topic", "code", "check", "text"),
    [
        (["masterWebPort=1"], "clicks", 3, "masters' web port", "no master answered at its web port"),
        ([], "nosuch", 2, "topics of group etl", "[TOPIC_NOT_FOUND] "),
        ([], "guarded", 2, "topics of group etl", "the server answered 450"),
    ],
)
def test_what_is_wrong_with_a_cluster(
    tmp_path: Path, options: list[str], topic: str, code: int, check: str, text: str
) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks"), TopicConfig("guarded")]) as tube:
        if topic == "guarded":  # the group may not read it
            tube.master_faults.force(Method.CONSUMER_REGISTER_V2, 450, times=100)
        more = [word for one in options for word in ("--option", one)]
        found = problems(code, *ClusterCommands.of(tube).where, *more, *GROUP, topic)
    assert list(found) == [check]
    assert text in found[check]


def test_a_web_port_of_another_cluster(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "other", [TopicConfig("views")]) as other:
        web_port = f"masterWebPort={other.master_web_port}"
        found = problems(2, *ClusterCommands.of(tube).where, "--option", web_port)
    assert found["masters' web port"].startswith("[OTHER_WEB_PORT] ")


def test_masters_and_brokers_that_are_not_there(tmp_path: Path) -> None:
    with held_port() as port:
        where = ["--master-servers", f"127.0.0.1:{port}", "--option", "masterWebPort=1"]
        found = problems(3, *where, "--option", "retryLimit=1s")
        assert found["masters"].startswith("[MASTER_UNREACHABLE] ")
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        [address] = tube.broker_addresses.values()
        tube.stop_broker(1, clean=False)
        assert problems(3, *ClusterCommands.of(tube).where)["brokers"].startswith(f"{address} not reached: ")


def test_a_user_that_the_masters_refuse(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")], users={"alice": SECRET}) as guarded:
        assert problems(2, *ClusterCommands.of(guarded).where)["masters"].startswith("[AUTHENTICATION_FAILED] ")


def test_a_table_that_is_not_one_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    (tmp_path / "table" / "_delta_log" / "00000000000000000000.json").write_text("{")
    done = run("--offsets-table", str(tmp_path / "table"), "--storage-option", f"secret_key={SECRET}")
    assert (done.exit_code, "PROBLEM  offsets table: [" in done.stdout) == (3, True), done.output
    assert SECRET not in done.output


@pytest.mark.parametrize(
    ("java", "text"),
    [
        ("echo 'openjdk version \"11.0.2\"'", "is Java 11; install JDK 17"),
        ("echo 'java version \"1.8.0_292\"'", "is Java 8; install JDK 17"),
        ("exit 1", "does not show its version"),
        (None, "no java found in JAVA_HOME or PATH"),
    ],
)
def test_a_java_that_spark_cannot_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: str | None, text: str
) -> None:
    (tmp_path / "bin").mkdir()
    if java is not None:
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{java}\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert text in problems(2)["Java"]


def test_spark_python_without_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`doctor` reports that Spark's Python does not find the source."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", str(python))
    assert problems(2)["Python"].startswith(f"[INVALID_SETTING] {python} does not find pyspark_tubeclient")


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tubeclient_cli.doctor._PACKAGES", ("protobuf", "delta-sparkle"))
    assert "delta-sparkle is missing; pip install 'pyspark-tubeclient[managed]'" in problems(2)["packages"]


def test_without_delta_spark_the_source_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tubeclient_cli.doctor._FOR_INGEST", "delta-sparkle")
    monkeypatch.setattr("tubeclient_cli.doctor._PACKAGES", ("protobuf",))
    assert _packages().endswith("; no delta-sparkle, which ingest needs unless Spark has Delta's jars")


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
