"""Which cluster commands reach, without --master-servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.tubeclient_cli.common.test_help import commands, helped
from tubeclient_cli.app import app
from tubeclient_cli.common.cluster import MASTERS_VARIABLE

REACHING = [words for words in commands(app) if "--master-servers HOST" in helped(*words)]


@pytest.mark.parametrize("words", REACHING, ids=" ".join)
def test_the_help_of_every_command_that_takes_masters_names_the_variable(words: list[str]) -> None:
    assert MASTERS_VARIABLE in helped(*words)


def test_many_commands_take_masters() -> None:
    assert {" ".join(words) for words in REACHING} >= {"produce", "consume", "ingest", "offsets lag", "groups move"}


def test_the_variable_names_the_masters_and_the_option_prevails(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        port = ["--option", f"masterWebPort={tube.master_web_port}"]
        for masters, words in ((tube.master_address, []), ("127.0.0.1:1", ["--master-servers", tube.master_address])):
            done = CliRunner().invoke(app, ["topics", "list", *words, *port], env={MASTERS_VARIABLE: masters})
            assert (done.exit_code, "clicks" in done.output) == (0, True), done.output


def test_an_empty_variable_is_none() -> None:
    done = CliRunner().invoke(app, ["topics", "list"], env={MASTERS_VARIABLE: ""})
    assert (done.exit_code, "--master-servers" in done.output) == (2, True)
