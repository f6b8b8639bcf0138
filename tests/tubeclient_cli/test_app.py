"""The command line: its help, wrong arguments, and what is told of a failed job."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tubeclient_cli.app import app, short_cause, with_advice


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


def test_of_a_failed_query_the_python_error_is_told() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING] failed:\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "ValueError: first\n"
        "tubeclient.errors.DataLoss: 1:clicks:0 lost [0, 28)\n"
        "\tat org.apache.spark.Foo\n"
        "org.apache.spark.SparkException: Job aborted\n"
    )
    assert short_cause(text) == "tubeclient.errors.DataLoss: 1:clicks:0 lost [0, 28)"
    assert short_cause("[TABLE_NOT_FOUND] no\nmore") == "[TABLE_NOT_FOUND] no"
    java = "An error occurred while calling z:io.delta.tables.DeltaTable.isDeltaTable.\n: java.lang.X: no s3a\n\tat a.b"
    assert short_cause(java) == "java.lang.X: no s3a"
    without = "[STREAM_FAILED] Query [id = 1] terminated with exception:  SQLSTATE: XXKST (no cause message)"
    assert short_cause(f"{without}\nmore").startswith(f"{without}. Usually the source's process beside the driver")


def test_of_a_loss_this_jobs_way_out_is_told() -> None:
    lost = "tubeclient.errors.DataLoss: partition 1:clicks:0 should be read from 560, but the broker's data ends at 28"
    assert with_advice(lost).startswith(f"{lost}. If a topic was deleted and created again, ")
    assert "--begin-anew TOPIC" in with_advice(lost)
    assert with_advice("ValueError: first") == "ValueError: first"
