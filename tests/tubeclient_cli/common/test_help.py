"""The help of every command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from tubeclient_cli.app import app
from tubeclient_cli.common.terminal import EXIT_CODES


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
def test_help_fits_and_ends_with_exit_codes(words: list[str]) -> None:
    """Each command's help fits into 80 columns and ends with the exit codes."""
    lines = [line.rstrip() for line in helped(*words).splitlines() if line.strip()]
    assert lines[-5:] == [f"  {line}" for line in EXIT_CODES.splitlines()[1:]]
    assert [line for line in lines if len(line) > 80] == []


def test_examples_are_as_written() -> None:
    assert (
        "    tubeclient topics create clicks --stores 2 --partitions 4 \\\n"
        "      --master-servers 10.0.0.1:8715 --token-file /etc/tubemq/token\n"
    ) in helped("topics", "create")
