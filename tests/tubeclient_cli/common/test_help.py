"""The help of every command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from tubeclient_cli.app import app
from tubeclient_cli.common.help import EXIT_CODES


def commands(group: typer.Typer, *path: str) -> Iterator[list[str]]:
    """The words of every command."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield [*path, command.name or command.callback.__name__.replace("_", "-")]
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, *path, str(inner.typer_instance.info.name))


def helped(*words: str) -> str:
    return CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output


GROUPS: list[list[str]] = [[], *([name] for name in ("bad-records", "groups", "offsets", "topics"))]


@pytest.mark.parametrize("words", [*GROUPS, *commands(app)], ids=" ".join)
def test_the_help_of_every_command_fits_and_ends_with_the_exit_codes(words: list[str]) -> None:
    lines = [line.rstrip() for line in helped(*words).splitlines() if line.strip()]
    assert lines[-5:] == [f"  {line}" for line in EXIT_CODES.splitlines()[1:]]
    assert [line for line in lines if len(line) > 80] == []


def test_examples_are_as_written() -> None:
    assert (
        "    tubeclient topics create clicks --stores 2 --partitions 4 \\\n"
        "      --master-servers 10.0.0.1:8715 --token-file /etc/tubemq/token\n"
    ) in helped("topics", "create")


@pytest.mark.parametrize("words", GROUPS)
def test_lists_of_commands_have_whole_sentences(words: list[str]) -> None:
    assert "..." not in helped(*words).replace("COMMAND [ARGS]...", "")


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["offsets", "status"], "option '--offsets-table', option '--consumer-group', option '--master-servers'"),
        (["offsets", "status", "--offsets-table", "/o"], "option '--consumer-group', option '--master-servers'"),
        (["topics", "show"], "argument 'TOPIC', option '--master-servers'"),
        (["topics", "list"], "option '--master-servers'"),
        (["offsets", "list"], "option '--offsets-table'"),
    ],
)
def test_all_that_is_missing_is_named_at_once(words: list[str], missing: str) -> None:
    done = CliRunner().invoke(app, words, env={"TUBECLIENT_MASTER_SERVERS": None})
    assert (done.exit_code, done.stdout) == (2, "")
    told = done.stderr.replace(" (env var: 'TUBECLIENT_MASTER_SERVERS')", "")
    assert told.splitlines()[-1] == f"Error: Missing {missing}."


def test_masters_of_the_environment_are_not_missing() -> None:
    done = CliRunner().invoke(app, ["offsets", "status"], env={"TUBECLIENT_MASTER_SERVERS": "a:1"})
    assert done.stderr.endswith("Missing option '--offsets-table', option '--consumer-group'.\n")
