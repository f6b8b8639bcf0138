"""What is told of an error of Spark's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from tubeclient.conditions import error_text
from tubeclient.errors import DataLoss
from tubeclient_cli.app import app
from tubeclient_ingest.tables.spark_errors import IngestFailed, explained, failure

ROOT = Path(__file__).resolve().parents[2]
BAD = "bad record in topic clicks, partition 1:clicks:0, message id 7, record 3: the text is not JSON"
NAMED = "[TOPIC_NOT_FOUND] no broker of the cluster has topic t; create and deploy it"
FAILED = "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/lake."


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[TABLE_NOT_FOUND] no\nCaused by: a.B: geheim", "[TABLE_NOT_FOUND] no"),
        ("An error occurred while calling o1.load.\n: java.lang.X: no s3a\n\tat a.b", "java.lang.X: no s3a"),
        (
            "Job aborted: Task 0 failed:\nTraceback (most recent call last):\n  File x.py\nValueError: first\n"
            "tubeclient.errors.X: lost\n\tat org.apache.spark.Foo\norg.apache.spark.SparkException: Job aborted\n",
            "tubeclient.errors.X: lost",
        ),
        # Spark writes its own text before it, on the same line, and others below it.
        (f"Failed: tubeclient.errors.ConfigurationError: {NAMED} SQLSTATE: 38000\nRuntimeError: later\n", NAMED),
        (f"a.b.C: {NAMED} of s3a://me:geheim@lake/t", f"{NAMED} of s3a://lake/t"),
        (
            f"An error occurred while calling o95.append.\n: {FAILED}\n\tat org.apache.spark.sql.Dataset\n"
            "Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device\n\t... 40 more\n"
            "Caused by: java.io.IOException: No space left on device\n\tat java.base/java.io\n",
            f"{FAILED.partition(' ')[2]}; caused by java.io.IOException: No space left on device",
        ),
        ("[PATH_NOT_FOUND] s3a://me:geheim@lake/t is gone", "[PATH_NOT_FOUND] s3a://lake/t is gone"),
    ],
)
def test_the_cause_is_told_in_one_line(text: str, cause: str) -> None:
    assert error_text(failure(text)) == cause


@pytest.mark.parametrize(
    "error",
    [
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (id > 0) violated by row with:\n - id : geheim",
        '[DELTA_EXCEED_CHAR_VARCHAR_LIMIT] Value "a "geheim"" exceeds char/varchar type length limitation. Failed',
        '[DELTA_EXCEED_CHAR_VARCHAR_LIMIT] Value "geheim\nb" exceeds char/varchar type length limitation. Failed',
        '[CAST_INVALID_INPUT] The value \'a of the type geheim\' of the type "STRING" cannot be cast to "DATE".',
        '[CAST_INVALID_INPUT] The value \'geheim\nb\' of the type "STRING" cannot be cast to "DATE".',
    ],
)
def test_no_value_of_a_row_is_told(error: str) -> None:
    """The job knows the table's rules as they were at its start."""
    found = failure(f"An error occurred while calling o1.append.\n: org.apache.X: {error}\n\tat a.b")
    assert found.condition == error.split()[0].strip("[]")
    assert "geheim" not in error_text(found)


def test_table_that_cannot_be_made() -> None:
    """The error points to the folder above if Spark cannot make a table."""
    java = (
        "org.apache.spark.sql.delta.DeltaIOException: [DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/lake/t\n\tat a"
    )
    found = error_text(failure(f"An error occurred while calling o1.sql.\n: {java}"))
    assert found.startswith("[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/lake/t. Check that its parent folder")


def test_place_of_a_bad_record() -> None:
    """Spark's text has it among Java's traces and Python's."""
    java = f"org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] {BAD} SQLSTATE: P0001\n\tat org.X\n"
    found = failure(f"An error occurred while calling o1.append.\n: Job aborted: {java}RuntimeError: later\n")
    assert error_text(found).startswith(f"[BAD_RECORD] {BAD}. Nothing of its round was written. Correct the format or")


def test_of_a_loss_this_jobs_way_out_is_told() -> None:
    with pytest.raises(IngestFailed) as caught, explained():
        raise DataLoss("1:clicks:0 ends at 28", partition="1:clicks:0", wanted=560, found=None)
    for told in (
        error_text(caught.value),
        error_text(failure("Traceback\ntubeclient.errors.DataLoss: [DATA_LOSS] 1:clicks:0 ends at 28")),
    ):
        assert told.startswith("[DATA_LOSS] 1:clicks:0 ends at 28. If its brokers lost their newest messages, ")
        assert "--reset-offsets TOPIC" in told


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'pyspark'\n\n\tat org.x\n",
        "Lost task 1.0: Error from python worker:\n  /usr/bin/python3: Error while finding module specification for "
        "'pyspark.daemon' (ModuleNotFoundError: No module named 'pyspark')\nPYTHONPATH was:\n  /x.zip\n",
    ],
)
def test_executor_without_a_package(text: str) -> None:
    """The error names the package and PYSPARK_PYTHON if an executor lacks a package."""
    cause = "[PACKAGE_MISSING] the Python of an executor lacks the package pyspark. Set PYSPARK_PYTHON"
    assert error_text(failure(text)).startswith(cause)


def test_options_in_texts_exist() -> None:
    """Each option that a text of the job names is an option of the command."""
    command: Any = typer.main.get_command(app)
    known = {option for parameter in command.commands["ingest"].params for option in parameter.opts}
    for module in [*(ROOT / "tubeclient_ingest").rglob("*.py"), *(ROOT / "tubeclient_cli" / "ingest").glob("*.py")]:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", module.read_text(encoding="utf-8")))
        assert named <= known, module
