"""Exit codes: which error is which, and where a user reads of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import typer

from offsets_store.errors import (
    CommitConflict,
    NoSuchCommit,
    OffsetsTableError,
    RunAlive,
    SchemaMismatch,
    SupersededRun,
)
from tubeclient.conditions import CONDITIONS, said
from tubeclient.errors import (
    BrokerFailed,
    ClientClosed,
    ConfigurationError,
    ConnectError,
    CorruptMessage,
    DataLoss,
    DeadlineExceeded,
    PartitionUnavailable,
    ProtocolError,
    RemoteError,
    StandbyMaster,
    TubeError,
    UnknownGroup,
    status_error,
)
from tubeclient_cli.common.terminal import _CODES, ExitCode, Unreachable, clear_errors, exit_code, exit_code_of, tell


def at_broker(cause: TubeError | None) -> BrokerFailed:
    failed = BrokerFailed("broker 1 failed", broker="1:h:1")
    failed.__cause__ = cause
    return failed


@pytest.mark.parametrize(
    ("code", "errors"),
    [
        (
            ExitCode.FAILED,
            [
                CorruptMessage("m"),
                ClientClosed("m"),
                DataLoss("m", partition="1:t:0", wanted=0, found=None),
                RemoteError("E", "refused"),
                status_error(410, "m"),
                CommitConflict("m"),
                SupersededRun("m"),
                at_broker(RemoteError("E", "refused")),
                at_broker(None),
            ],
        ),
        (
            ExitCode.USAGE,
            [
                ConfigurationError("m"),
                RemoteError("E", "refused", condition="AUTHENTICATION_FAILED"),
                UnknownGroup("m"),
                status_error(415, "m"),
                status_error(431, "m"),
                status_error(450, "m"),
                status_error(500, "Wrong partition value"),
                RunAlive("m"),
                SchemaMismatch("m"),
                NoSuchCommit("m"),
                at_broker(ConfigurationError("m")),
            ],
        ),
        (
            ExitCode.UNREACHABLE,
            [
                ConnectError("m"),
                DeadlineExceeded("m"),
                ProtocolError("m"),
                StandbyMaster("E", "m"),
                PartitionUnavailable("m"),
                status_error(503, "m"),
                OffsetsTableError("m"),
                Unreachable("m"),
                at_broker(ConnectError("m")),
            ],
        ),
    ],
)
def test_each_error_has_one_exit_code(code: ExitCode, errors: list[Exception]) -> None:
    assert {repr(error): exit_code(error) for error in errors} == {repr(error): code for error in errors}


def test_an_error_that_came_through_spark_has_the_code_of_its_name() -> None:
    for error in (ConnectError("m"), NoSuchCommit("m"), SupersededRun("m")):
        assert exit_code_of(said(error)) is exit_code(error)
    assert exit_code_of("ValueError: x") is ExitCode.FAILED


def test_each_name_with_a_code_is_a_condition() -> None:
    assert {name for names in _CODES.values() for name in names} <= CONDITIONS.keys()


def test_an_error_is_one_line_and_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, clear_errors("topics list"):
        raise ConnectError("no master answers")
    assert caught.value.exit_code == ExitCode.UNREACHABLE
    assert capsys.readouterr().err == "tubeclient topics list: [SERVER_UNREACHABLE] no master answers\n"


def test_words_of_a_server_add_no_line_and_command_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), clear_errors("groups show"):
        raise RemoteError("E", "refused\r\nall is well\x1b]0;owned\x07")
    [line] = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert line.endswith("refused all is well\\x1b]0;owned\\x07")


SHOWN = """
import sys, typer
from tubeclient_cli.common.terminal import clear_errors, table_console
try:
    with clear_errors("offsets show"):
        table_console().print("Z\\xfcrich " + "x" * 10_000)
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


def shown(redirected: str, program: str = SHOWN, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f'exec "$0" -c "$1" {redirected}'
    return subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}])
def test_what_an_encoding_lacks_is_escaped(environment: dict[str, str]) -> None:
    done = shown("", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Z\\xfcrich ")


def test_a_full_disk_is_one_line() -> None:
    done = shown(">/dev/full")
    assert (done.returncode, done.stderr) == (
        ExitCode.FAILED,
        "tubeclient offsets show: input or output failed: [Errno 28] No space left on device\n",
    )


@pytest.mark.parametrize("arguments", ["--version", "doctor --help"])
def test_help_for_a_full_disk_is_one_line(arguments: str) -> None:
    done = shown(">/dev/full", f"from tubeclient_cli.app import app; app({arguments.split()})")
    assert (done.returncode, done.stderr) == (
        ExitCode.FAILED,
        "tubeclient: input or output failed: [Errno 28] No space left on device\n",
    )


def test_an_input_that_has_nothing_for_now_is_waited_for() -> None:
    """Another program of the terminal may have said that it does not block."""
    read = "import sys; from tubeclient_cli.common.terminal import clear_errors\nwith clear_errors('produce'):\n"
    read += "    print('ready', flush=True); print(list(sys.stdin.buffer))"
    out, into = os.pipe()
    os.set_blocking(out, False)
    with subprocess.Popen([sys.executable, "-c", read], stdin=out, stdout=subprocess.PIPE) as process:
        os.close(out)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.write(into, b"first\nsec")
        time.sleep(0.2)
        os.write(into, b"ond")
        os.close(into)
        assert process.stdout.read() == b"[b'first\\n', b'second']\n"


def test_no_line_has_a_password_of_a_uri(capsys: pytest.CaptureFixture[str]) -> None:
    tell("cannot list s3a://KEY:the/secret@lake/t: no such bucket")
    assert capsys.readouterr().err == "cannot list s3a://lake/t: no such bucket\n"
