"""Runs commands against a cluster, in this process, as a shell would."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ
from tubeclient import ClientSettings
from tubeclient_cli.app import app

__all__ = ["ClusterCommands"]


class ClusterCommands:
    """The commands on one cluster."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.where = ["--master-servers", settings.master_servers[0]]
        self.where += ["--option", f"masterWebPort={settings.master_web_port}"]

    @classmethod
    def of(cls, tube: EmbeddedTubeMQ) -> ClusterCommands:
        return cls(ClientSettings((tube.master_address,), master_web_port=tube.master_web_port))

    def run(self, *words: str, given: bytes | None = None, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(app, [*words, *self.where], input=given, env=env)

    def text(self, *words: str, given: bytes | None = None, env: dict[str, str] | None = None) -> str:
        """What it prints; exit code 0."""
        done = self.run(*words, given=given, env=env)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *words: str, given: bytes | None = None, env: dict[str, str] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text(*words, "--json", given=given, env=env))
        return found

    def error(self, *words: str, code: int = 2, given: bytes | None = None, env: dict[str, str] | None = None) -> str:
        """The one line of a command that fails with this exit code."""
        done = self.run(*words, given=given, env=env)
        assert (done.exit_code, done.stdout) == (code, ""), done.output
        [line] = done.stderr.splitlines()
        return line
