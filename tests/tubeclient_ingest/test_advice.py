"""What is told of a failed job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.errors import PySparkRuntimeError

from tubeclient_cli.app import app
from tubeclient_ingest.advice import short_cause, with_advice

ROOT = Path(__file__).resolve().parents[2]


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
    for text in (without, "Connection reset", "[STREAM_FAILED] Query [id = 1]: Broken pipe"):
        assert short_cause(f"{text}\nmore").startswith(f"{text}. Usually the source's process beside the driver")


def test_of_a_write_that_failed_the_reason_is_told() -> None:
    failed = "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/lake."
    text = f"""[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Traceback (most recent call last):
  File "sink.py", line 1, in write
py4j.protocol.Py4JJavaError: An error occurred while calling o95.save.
: {failed}
\tat org.apache.spark.sql.Dataset.write(Dataset.scala:1)
\tSuppressed: java.io.IOException: closed
\t\tat java.base/java.io.FileOutputStream.close(Native Method)
Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
\t... 40 more
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 40 more

Caused by: py4j.Py4JException: An exception was raised by the Python Proxy.
"""
    assert short_cause(text) == f"{failed}; caused by java.io.IOException: No space left on device"


def raised_in_a_batch(error: str) -> str:
    return (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An "
        "error occurred in the user provided function in foreach batch sink. Reason: An exception was raised by the "
        "Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "target_table.py", line 1, in append\n'
        '    rows.write.format("delta")\n'
        f"{error}\n SQLSTATE: XXKST\n=== Streaming Query ===\nCurrent State: ACTIVE\n"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "pyspark.errors.exceptions.captured.AnalysisException: [DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES] Found "
            "invalid character(s) among ' ,;{}()\\n\\t=' in the column names of your schema. \nInvalid: a b.",
            "[DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES] Found invalid character(s) among ' ,;{}()\\n\\t=' in the "
            "column names of your schema.",
        ),
        (
            "pyspark.errors.exceptions.captured.UnsupportedOperationException: [DELTA_UNSUPPORTED_DATA_TYPES] Found "
            "columns using unsupported data types: [a: StringType(UTF8_LCASE)].",
            "[DELTA_UNSUPPORTED_DATA_TYPES] Found columns using unsupported data types: [a: StringType(UTF8_LCASE)].",
        ),
        (
            "pyspark.errors.exceptions.captured.ParseException: \n[PARSE_SYNTAX_ERROR] Syntax error at 'x'.\n== S",
            "[PARSE_SYNTAX_ERROR] Syntax error at 'x'.",
        ),
        (
            "delta.exceptions.captured.MetadataChangedException: [DELTA_METADATA_CHANGED] The metadata of the Delta "
            "table has been changed.\nConflicting commit: {}",
            "[DELTA_METADATA_CHANGED] The metadata of the Delta table has been changed.",
        ),
        ("pyspark.errors.exceptions.captured.IllegalArgumentException: none", "none"),
    ],
)
def test_of_an_error_of_spark_or_delta_in_a_batch_its_own_first_line_is_told(error: str, said: str) -> None:
    assert short_cause(raised_in_a_batch(error)) == said


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
    java = f"py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n: org.apache.X: {error}\n\tat a.b"
    cause = short_cause(raised_in_a_batch(java))
    assert cause.startswith(f"org.apache.X: {error.split()[0]} ")
    assert "geheim" not in cause
    assert "type" not in error or "\n" in error or " type " in cause


def test_a_password_in_a_path_is_not_told() -> None:
    assert short_cause("[PATH_NOT_FOUND] s3a://me:geheim@lake/t is gone") == "[PATH_NOT_FOUND] s3a://lake/t is gone"
    assert short_cause("ValueError: s3a://lake/a:b@c") == "ValueError: s3a://lake/a:b@c"


def test_of_a_loss_this_jobs_way_out_is_told() -> None:
    lost = "[DATA_LOSS] partition 1:clicks:0 should be read from 560, but the broker's data ends at 28"
    assert with_advice(lost).startswith(f"{lost}. If its brokers lost their newest messages, ")
    assert "--begin-anew TOPIC" in with_advice(lost)
    assert with_advice("ValueError: first") == "ValueError: first"


def test_each_option_that_a_text_names_is_one_of_the_command() -> None:
    command: Any = typer.main.get_command(app)
    known = {option for parameter in command.commands["ingest"].params for option in parameter.opts}
    for module in [*(ROOT / "tubeclient_ingest").glob("*.py"), *(ROOT / "tubeclient_cli" / "ingest").glob("*.py")]:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", module.read_text(encoding="utf-8")))
        assert named <= known, module


def test_of_a_bad_record_its_place_and_the_ways_out_are_told() -> None:
    """Spark's text has it among Java's traces and Python's."""
    bad = "bad record in topic clicks, partition 1:clicks:0, message id 7, record 3: the text is not JSON"
    text = (
        "[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: org.apache.spark.SparkRuntimeException: "
        f"[USER_RAISED_EXCEPTION] {bad} SQLSTATE: P0001\n\tat org.apache.spark.Foo\n"
        "RuntimeError: later\n"
    )
    assert short_cause(text) == bad
    assert with_advice(bad).startswith(
        f"[BAD_RECORD] {bad}. Nothing of its round was written. Correct the format or the schema, or give bad"
    )


def test_a_named_error_is_the_cause_wherever_it_stands() -> None:
    """Spark writes its own text before it, on the same line, and others below it."""
    named = "[TOPIC_NOT_FOUND] no broker of the cluster has topic t; create and deploy it"
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed "
        f"when Python streaming data source perform initialOffset: tubeclient.errors.ConfigurationError: {named}\n"
        " SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nRuntimeError: later\n"
    )
    assert short_cause(text) == named
    assert short_cause(f"Failed: tubeclient.errors.X: {named} SQLSTATE: 38000") == named
    assert short_cause(f"a.b.C: {named} of s3a://me:geheim@lake/t") == f"{named} of s3a://lake/t"


def test_an_executor_without_the_package_is_told_with_what_to_do() -> None:
    text = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'spark_source'\n\n\tat org.x\n"
    assert short_cause(text).startswith("[PACKAGE_MISSING] the Python of an executor lacks the package spark_source.")
    named = "[PACKAGE_MISSING] pyspark-tubeclient is not installed in the Python of executor e, /usr/bin/python3"
    ours = f"An exception was thrown from the Python worker: ModuleNotFoundError: {named}\n SQLSTATE: 38000\n"
    assert short_cause(ours) == named


def test_a_python_without_pyspark_is_told_though_no_task_began() -> None:
    text = (
        "Job aborted: Lost task 1.0 in stage 0.0 (TID 1) (10.0.0.2 executor 0): org.apache.spark.SparkException: \n"
        "Error from python worker:\n  /usr/bin/python3: Error while finding module specification for 'pyspark.daemon' "
        "(ModuleNotFoundError: No module named 'pyspark')\nPYTHONPATH was:\n  /x.zip\n"
    )
    assert short_cause(text).startswith("[PACKAGE_MISSING] the Python of an executor lacks the package pyspark. Set")


@pytest.mark.parametrize(
    ("where", "said"), [("10.0.0.2 executor 0", "executor 10.0.0.2"), ("vm executor driver", "this machine")]
)
def test_a_python_that_is_not_there_is_told_with_the_machine(where: str, said: str) -> None:
    text = (
        f"Job aborted due to stage failure: Lost task 1.0 in stage 0.0 (TID 1) ({where}): java.io.IOException: Cannot "
        'run program "/opt/venv/bin/python": error=2, No such file or directory\n\tat java.base/java.lang\n'
    )
    beginning = f"[PYTHON_NOT_FOUND] there is no Python /opt/venv/bin/python on {said}. Set PYSPARK_PYTHON"
    assert short_cause(text).startswith(beginning)


def test_another_python_on_executors_is_told_with_both_versions() -> None:
    versions = {"worker_version": "3.10", "driver_version": "3.11"}
    sparks = PySparkRuntimeError(errorClass="PYTHON_VERSION_MISMATCH", messageParameters=versions)
    text = f"Traceback (most recent call last):\n  raise PySparkRuntimeError(\na.b.PySparkRuntimeError: {sparks}\n"
    assert short_cause(text).startswith("[OTHER_PYTHON] executors run Python 3.10, and the driver 3.11. Set PYSPARK")


def test_a_python_of_sparks_that_does_not_find_the_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/bare/python")
    text = (
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: tubeclient. Make sure the provider name is correct "
        "and the package is properly registered and compatible with your Spark version. SQLSTATE: 42K02;\n~WriteTo\n"
    )
    assert short_cause(text).startswith(
        "[PACKAGE_MISSING] Spark looks for the source with /opt/bare/python (PYSPARK_PYTHON), which lacks pyspark-tube"
        "client. Set PYSPARK_PYTHON"
    )
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/opt/other/python")
    assert "(PYSPARK_DRIVER_PYTHON), which lacks pyspark-tubeclient. Unset PYSPARK_DRIVER_PYTHON" in short_cause(text)
