"""Exit codes, one line for an error, and signals: how commands end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import typer

from offsets_store.errors import (
    OffsetsTableError,
    RunAlive,
    SchemaMismatch,
    SupersededRun,
)
from tubeclient.conditions import error_text
from tubeclient.errors import (
    BrokerFailed,
    ConfigurationError,
    ConnectError,
    CorruptMessage,
    DeadlineExceeded,
    RemoteError,
    TubeError,
    UnknownGroup,
    status_error,
)
from tubeclient_cli.common.terminal import ExitCode, Unreachable, clear_errors, exit_code, print_stderr
from tubeclient_ingest.tables.spark_errors import failure


def at_broker(cause: TubeError | None) -> BrokerFailed:
    failed = BrokerFailed("broker 1 failed", broker="1:h:1")
    failed.__cause__ = cause
    return failed


@pytest.mark.parametrize(
    ("code", "errors"),
    [
        (ExitCode.FAILED, [CorruptMessage("m"), RemoteError("E", "refused"), SupersededRun("m"), at_broker(None)]),
        (
            ExitCode.USAGE,
            [ConfigurationError("m"), UnknownGroup("m"), status_error(450, "m"), RunAlive("m"), SchemaMismatch("m")],
        ),
        (
            ExitCode.UNREACHABLE,
            [ConnectError("m"), DeadlineExceeded("m"), OffsetsTableError("m"), Unreachable("m")],
        ),
        (ExitCode.UNREACHABLE, [at_broker(ConnectError("m"))]),
    ],
)
def test_each_error_has_one_exit_code(code: ExitCode, errors: list[Exception]) -> None:
    assert {repr(error): exit_code(error) for error in errors} == {repr(error): code for error in errors}


def test_exit_code_of_an_error_through_spark() -> None:
    """An error that came through Spark has the exit code of its name."""
    for error in (ConnectError("m"), RunAlive("m"), SupersededRun("m")):
        assert exit_code(
            failure(f"Traceback ...\ntubeclient.errors.{type(error).__name__}: {error_text(error)}\n")
        ) is exit_code(error)
    assert exit_code(failure("ValueError: x")) is ExitCode.FAILED


def test_an_error_is_one_line_and_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, clear_errors("topics list"):
        raise ConnectError("no master answers")
    assert caught.value.exit_code == ExitCode.UNREACHABLE
    assert capsys.readouterr().err == "tubeclient topics list: [SERVER_UNREACHABLE] no master answers\n"


def test_server_text_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """A server's text adds no line to an error and gives the terminal no command."""
    with pytest.raises(typer.Exit), clear_errors("groups show"):
        raise RemoteError("E", "refused\r\nall is well\x1b]0;owned\x07")
    [line] = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert line.endswith("refused all is well\\x1b]0;owned\\x07")


SHOWN = """
import sys, typer
from tubeclient_ingest.tables.spark_errors import failure
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


def test_nonblocking_input() -> None:
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


_PRINTING = r"""
import sys, threading
from tubeclient_ingest.tables.spark_errors import failure
from tubeclient_cli.common.terminal import stop_on_signals

stop = threading.Event()
stop_on_signals(stop, "stopping")
sys.stdout.write("begun\n"); sys.stdout.flush()
for _ in range(1_000):
    sys.stdout.write("x" * 100 + "\n"); sys.stdout.flush()
stop.wait()
print("stopped", file=sys.stderr)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_a_second_one_at_once(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PRINTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as printing:
        assert printing.stdout is not None
        assert os.read(printing.stdout.fileno(), 6) == b"begun\n"
        printing.send_signal(number)
        rest, errors = printing.communicate(timeout=60)
    assert (printing.returncode, rest.count(b"\n"), errors) == (0, 1_000, b"stopping\nstopped\n")
    # Its output is full, and nobody takes it.
    with subprocess.Popen([sys.executable, "-c", _PRINTING], stdout=subprocess.PIPE) as printing:
        assert printing.stdout is not None
        assert os.read(printing.stdout.fileno(), 6) == b"begun\n"
        printing.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            printing.wait(1)
        printing.send_signal(number)
        assert printing.wait(30) == -number


def test_no_line_has_a_password_of_a_uri(capsys: pytest.CaptureFixture[str]) -> None:
    print_stderr("cannot list s3a://KEY:the/secret@lake/t: no such bucket")
    assert capsys.readouterr().err == "cannot list s3a://lake/t: no such bucket\n"
