"""The command line: its help and wrong arguments."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tubeclient_cli.app import app


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest"], "not given"),
        (["ingest", "--option", "geheim"], "--option takes NAME=VALUE"),
        (["ingest", "--conf", "=geheim"], "--conf takes NAME=VALUE"),
        (["ingest", "--settings", "nothere.toml"], "cannot be read"),
    ],
)
def test_wrong_arguments_are_exit_code_2_before_spark_is_started(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "geheim" not in result.output


def test_help_and_version_are_worth_reading() -> None:
    result = CliRunner().invoke(app, ["ingest", "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    for words in ("--offsets-table", "storage-options", "Ctrl-C", "tubeclient ingest --master-servers"):
        assert words in result.output
    assert CliRunner().invoke(app, ["--version"]).output.startswith("pyspark-tubeclient ")
