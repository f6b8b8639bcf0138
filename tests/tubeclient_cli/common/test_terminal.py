"""Exit codes: which error is which, and where a user reads of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import typer
from typer.testing import CliRunner

from offsets_store.errors import (
    CommitConflict,
    NoSuchCommit,
    OffsetsTableError,
    RunAlive,
    SchemaMismatch,
    SupersededRun,
    VersionGone,
)
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
from tubeclient_cli.app import app
from tubeclient_cli.common.terminal import EXIT_CODES, ExitCode, Unreachable, clear_errors, exit_code

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
                SupersededRun("g", 1, 2, NOW),
                at_broker(RemoteError("E", "refused")),
                at_broker(None),
            ],
        ),
        (
            ExitCode.USAGE,
            [
                ConfigurationError("m"),
                UnknownGroup("m"),
                status_error(415, "m"),
                status_error(431, "m"),
                status_error(450, "m"),
                status_error(500, "Wrong partition value"),
                RunAlive("g", 1, NOW, 1),
                SchemaMismatch("m"),
                NoSuchCommit("m"),
                VersionGone("/t", 1, 0),
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


def test_an_error_is_one_line_and_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, clear_errors("topics list"):
        raise ConnectError("no master answers")
    assert caught.value.exit_code == ExitCode.UNREACHABLE
    assert capsys.readouterr().err == "tubeclient topics list: [SERVER_UNREACHABLE] no master answers\n"


def commands(group: typer.Typer, *path: str) -> Iterator[list[str]]:
    """The words of every command."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield [*path, command.name or command.callback.__name__.replace("_", "-")]
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, *path, str(inner.typer_instance.info.name))


@pytest.mark.parametrize("words", list(commands(app)), ids=" ".join)
def test_the_help_of_every_command_ends_with_the_exit_codes(words: list[str]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output
    lines = [" ".join(line.split()) for line in shown.splitlines() if line.strip()]
    assert lines[-5:] == [" ".join(line.split()) for line in EXIT_CODES.splitlines() if line]
