"""`tubeclient ingest` while Spark starts: a line that says so, and how it ends where Spark does not come up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.errors import PySparkRuntimeError
from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tubeclient_cli.app import app

STARTING = "starting Spark, which takes 10 to 60 s; the first start on a machine downloads Delta's jars\n"


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [TopicConfig("clicks")]) as running:
        yield running


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """The command's handlers of signals go with the test; a signal for which it has none is not to end the tests."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted() -> NoReturn:
    raise KeyboardInterrupt


def no_java() -> NoReturn:
    raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})


def java_ended_too() -> NoReturn:
    os.kill(os.getpid(), signal.SIGTERM)
    no_java()


def run(
    tube: EmbeddedTubeMQ,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    start: Callable[[], NoReturn],
    *more: str,
    session: Callable[..., object] | None = None,
) -> Result:
    monkeypatch.setattr("tubeclient_cli.common.session.make_session", session or (lambda *_, **__: start()))
    places = ["--target", str(folder / "table")]
    names = ["--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}"]
    names += ["--consumer-group", "etl", "--topic", "clicks"]
    return CliRunner().invoke(app, ["ingest", *names, *places, *more])


@pytest.mark.parametrize("start", [interrupted, java_ended_too])
def test_signal_before_spark_is_up(
    tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: Callable[[], NoReturn]
) -> None:
    """The session's own handler of SIGINT interrupts, from when it is made until the command has put its own back."""
    done = run(tube, monkeypatch, tmp_path, start)
    assert (done.exit_code, done.stdout) == (0, f"{STARTING}stopped before Spark was up; nothing was read\n"), done
    assert done.stderr == ""


def test_spark_that_does_not_start_is_one_sentence(
    tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = run(tube, monkeypatch, tmp_path, no_java)
    assert (done.exit_code, done.stdout) == (3, STARTING), done
    where, last = done.stderr.splitlines()
    assert last.startswith("tubeclient ingest: [JAVA_GATEWAY_EXITED] ")
    log = Path(where.removeprefix("Spark's output is in "))
    assert log.is_file()
    log.unlink()


def test_events_for_programs_are_json_to_the_end(
    tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = run(tube, monkeypatch, tmp_path, no_java, "--json", "--verbose")
    first, last = map(json.loads, done.stdout.splitlines())
    assert (done.exit_code, first["event"]) == (3, "starting"), done
    assert (last["event"], last["condition"]) == ("error", "JAVA_GATEWAY_EXITED")
    assert done.stderr == f"tubeclient ingest: {last['text']}\n"
    wrong = run(tube, monkeypatch, tmp_path, no_java, "--json", "--trigger", "soon")
    [only] = map(json.loads, wrong.stdout.splitlines())
    assert (wrong.exit_code, only["event"], only["condition"]) == (2, "error", "INVALID_SETTING")


def test_spark_that_fails_to_start(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """The command as a process, with a Spark that fails as without Java."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho noise on output\necho JAVA_HOME is not set >&2\nexit 1\n")
    script.chmod(0o755)
    names = ["--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}"]
    names += ["--consumer-group", "etl", "--topic", "clicks"]
    places = ["--target", str(tmp_path / "table")]
    command = [sys.executable, "-m", "tubeclient_cli.app", "ingest", *names, *places, "--conf", "spark.jars.packages="]
    environment = {**os.environ, "SPARK_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert (done.returncode, done.stdout) == (3, STARTING), done
    where, last = done.stderr.splitlines()
    assert last.startswith("tubeclient ingest: [JAVA_NOT_USABLE] Java was not found.")
    log = Path(where.removeprefix("Spark's output is in "))
    assert log.parent == tmp_path
    assert log.read_text() == "noise on output\nJAVA_HOME is not set\n"
