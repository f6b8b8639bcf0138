"""Which cluster commands reach, without --master-servers; and addresses to listen on."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.tubeclient_cli.common.test_help import commands, helped
from tubeclient.errors import ConfigurationError
from tubeclient_cli.app import app
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, WEB_PORT_VARIABLE, check_address

REACHING = [words for words in commands(app) if "--master-servers HOST" in helped(*words)]


@pytest.mark.parametrize("words", REACHING, ids=" ".join)
def test_help_names_the_variables(words: list[str]) -> None:
    """The help of every command that takes masters names the environment variables."""
    assert MASTERS_VARIABLE in helped(*words)
    assert WEB_PORT_VARIABLE in helped(*words)


def test_masters_variable(tmp_path: Path) -> None:
    """The variable names the masters unless --master-servers is given."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        port = ["--option", f"masterWebPort={tube.master_web_port}"]
        for masters, words in ((tube.master_address, []), ("127.0.0.1:1", ["--master-servers", tube.master_address])):
            done = CliRunner().invoke(app, ["topics", "list", *words, *port], env={MASTERS_VARIABLE: masters})
            assert (done.exit_code, "clicks" in done.output) == (0, True), done.output


def test_an_empty_variable_is_none() -> None:
    done = CliRunner().invoke(app, ["topics", "list"], env={MASTERS_VARIABLE: ""})
    assert (done.exit_code, "--master-servers" in done.output) == (2, True)


def test_web_port_variable(tmp_path: Path) -> None:
    """The variable names the web port unless the masterWebPort option is given."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        own = str(tube.master_web_port)
        reach = ["--master-servers", tube.master_address, "--option", "rpcTimeout=2s"]
        for port, words in ((own, []), ("1", ["--option", f"masterwebport={own}"])):
            done = CliRunner().invoke(app, ["topics", "list", *reach, *words], env={WEB_PORT_VARIABLE: port})
            assert (done.exit_code, "clicks" in done.output) == (0, True), done.output
        environment = {WEB_PORT_VARIABLE: own}
        words = ["--master-servers", tube.master_address, "--consumer-group", "etl", "--topic", "clicks"]
        done = CliRunner().invoke(app, ["doctor", *words], env=environment)
        assert f"web port: {own} lists" in done.output, done.output


def test_invalid_web_port_variable() -> None:
    """The error for an invalid port names the environment variable."""
    done = CliRunner().invoke(app, ["topics", "list", "--master-servers", "127.0.0.1:1"], env={WEB_PORT_VARIABLE: "x"})
    assert done.exit_code == 2
    assert f"the environment variable {WEB_PORT_VARIABLE} is 'x'; write a whole number from 1 to 65535" in done.output


@pytest.mark.parametrize("address", ["", " ", "a..b", "a" * 64])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """A socket would take an empty one for all of the machine's."""
    for taken in ("127.0.0.1", "::1", "localhost", "a.b."):
        check_address("--host", taken)
    with pytest.raises(ConfigurationError, match=r"^--host is .*give an address: 127\.0\.0\.1"):
        check_address("--host", address)
