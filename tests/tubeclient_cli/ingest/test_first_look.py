"""`tubeclient ingest` asks the masters before Spark: a typo is an error without Spark, and what
only the job can judge is left to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.common.refusal import Code
from tubeclient.errors import ConnectError, TopicNotDeployed
from tubeclient.wire.methods import Method
from tubeclient_cli.ingest.first_look import look_first
from tubeclient_ingest.settings import IngestSettings

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [TopicConfig("clicks")]) as running:
        yield running


def command(tube: EmbeddedTubeMQ, folder: Path, *more: str) -> list[str]:
    names = ["--consumer-group", "etl", "--target", str(folder / "table")]
    web = ["--option", f"masterWebPort={tube.master_web_port}"]
    return [sys.executable, "-m", "tubeclient_cli.app", "ingest", *names, *web, *more]


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """As on a machine without Java: whoever starts Spark fails, with another error."""
    return {**os.environ, "JAVA_HOME": str(tmp_path / "no-java")}


@pytest.mark.parametrize(
    ("master", "topic", "code", "said"),
    [
        ("", "clikcs", 2, "[TOPIC_NOT_FOUND] "),
        (NOWHERE, "clicks", 3, "[MASTER_UNREACHABLE] "),
        ("", "clicks", 3, "[JAVA_"),
    ],
)
def test_a_typo_is_told_before_spark_starts(
    tube: EmbeddedTubeMQ, tmp_path: Path, without_java: dict[str, str], master: str, topic: str, code: int, said: str
) -> None:
    more = ["--master-servers", master or tube.master_address, "--topic", topic, "--json"]
    done = subprocess.run(
        command(tube, tmp_path, *more), capture_output=True, text=True, timeout=120, env=without_java, check=False
    )
    assert done.returncode == code, done
    *before, last = map(json.loads, done.stdout.splitlines())
    assert last["event"] == "error"
    assert last["text"].startswith(said)
    assert done.stderr.splitlines()[-1] == f"tubeclient ingest: {last['text']}"
    starts = said == "[JAVA_"
    assert [one["event"] for one in before] == ["starting"] * starts
    for line in done.stderr.splitlines()[:-1]:
        Path(line.removeprefix("Spark's output is in ")).unlink()


def settings(tube: EmbeddedTubeMQ, folder: Path, **changes: str) -> IngestSettings:
    values = {"target": str(folder / "table"), "topics": ("clicks",)}
    values |= {"master_servers": tube.master_address, "consumer_group": "etl"}
    web = {"masterWebPort": str(tube.master_web_port), "rpcTimeout": "2s"}
    return IngestSettings(**{**values, "source_options": web, **changes})  # type: ignore[arg-type]


def test_of_a_topic_that_is_there_nothing_is_said(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    look_first(settings(tube, tmp_path))


@pytest.mark.parametrize(
    ("changes", "error"), [({"master_servers": NOWHERE}, ConnectError), ({"topics": ("clikcs",)}, TopicNotDeployed)]
)
def test_a_typo_is_the_jobs_own_error(
    tube: EmbeddedTubeMQ, tmp_path: Path, changes: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        look_first(settings(tube, tmp_path, **changes))


def test_what_the_job_may_judge_otherwise_is_left_to_it(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    tube.master_faults.force(Method.CONSUMER_REGISTER_V2, Code.GROUP_FORBIDDEN)
    look_first(settings(tube, tmp_path))
    tube.master_faults.refuse_if_forced(Method.CONSUMER_REGISTER_V2)  # it was met


def test_masters_that_take_too_long_are_left_to_the_job(
    tube: EmbeddedTubeMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    monkeypatch.setattr("tubeclient_cli.ingest.first_look.TubeCluster.fetch_view", lambda _: let_go.wait())
    try:
        look_first(settings(tube, tmp_path), within_s=0.01)
    finally:
        let_go.set()


def test_what_no_error_of_ours_says_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("tubeclient_cli.ingest.first_look.within", fail)
    look_first(
        IngestSettings(master_servers=NOWHERE, consumer_group="etl", topics=("clicks",), target=str(tmp_path / "table"))
    )
