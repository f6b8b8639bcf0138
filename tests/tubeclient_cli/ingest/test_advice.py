"""What is told of a failed job."""

from __future__ import annotations

from tubeclient_cli.ingest.advice import short_cause, with_advice


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


def test_of_a_loss_this_jobs_way_out_is_told() -> None:
    lost = "tubeclient.errors.DataLoss: partition 1:clicks:0 should be read from 560, but the broker's data ends at 28"
    assert with_advice(lost).startswith(f"{lost}. If a topic was deleted and created again, ")
    assert "--begin-anew TOPIC" in with_advice(lost)
    assert with_advice("ValueError: first") == "ValueError: first"
