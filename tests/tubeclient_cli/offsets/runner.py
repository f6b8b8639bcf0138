"""Runs the commands of `tubeclient offsets` in this process, as a shell would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ
from offsets_store import OffsetsTable, PartitionProgress
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app

__all__ = ["GROUP", "OffsetsCommands", "at"]

GROUP = "clicks_etl"


def at(offsets: Mapping[PartitionKey, int], end_offset: int | None = 280) -> list[PartitionProgress]:
    return [PartitionProgress(partition, offset, end_offset, 0) for partition, offset in offsets.items()]


class OffsetsCommands:
    """The commands on one table, and one cluster where a command asks for it."""

    def __init__(self, uri: str, tube: EmbeddedTubeMQ) -> None:
        self.uri = uri
        self.cluster = ["--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}"]

    @property
    def table(self) -> OffsetsTable:
        return OffsetsTable(self.uri)

    def run(self, command: str, *more: str, group: str = GROUP, answer: str | None = None) -> Result:
        arguments = ["offsets", command, "--offsets-table", self.uri, "--consumer-group", group, *more]
        if command == "reset" and "--master-servers" not in more:
            arguments += self.cluster
        return CliRunner().invoke(app, arguments, input=answer)

    def text(self, command: str, *more: str, group: str = GROUP, answer: str | None = None) -> str:
        """What it prints, with single blanks and without a table's lines; exit code 0."""
        done = self.run(command, *more, group=group, answer=answer)
        assert done.exit_code == 0, done.output
        return "\n".join(" ".join(line.replace("│", " ").split()) for line in done.stdout.splitlines())

    def json(self, command: str, *more: str, group: str = GROUP) -> dict[str, Any]:
        done = self.run(command, "--json", *more, group=group)
        assert done.exit_code == 0, done.output
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def error(self, command: str, *more: str, group: str = GROUP, code: int = 2) -> str:
        """The one line of a command that fails with this exit code, without the error's name."""
        done = self.run(command, *more, group=group)
        assert done.exit_code == code, done.output
        assert done.stdout == ""
        [line] = done.stderr.splitlines()
        start = f"tubeclient offsets {command}: "
        assert line.startswith(start)
        name, bracket, text = line.removeprefix(start).partition("] ")
        assert bracket, f"no name: {line}"
        assert name.startswith("["), line
        return text

    def positions(self, group: str = GROUP) -> dict[str, int]:
        return {str(key): offset for key, offset in self.table.positions(group, ["clicks"]).items()}
