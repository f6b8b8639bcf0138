"""Spark's offset log, as the job reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.checkpoint import Checkpoint, parse_offset_log


@pytest.mark.parametrize(
    "text",
    [
        'v1\n{"batchWatermarkMs":0}\n{"1:clicks:0": {"0": 280}, "version": 1}',
        'v2\n{"batchWatermarkMs":0}\n0:{"1:clicks:0": {"0": 280}, "version": 1}',
    ],
)
def test_the_offset_log_is_read_as_spark_writes_it(text: str) -> None:
    assert parse_offset_log(text) == {PartitionKey(1, "clicks", 0): 280}


@pytest.mark.parametrize("text", ["v3\n{}\n{}", "v2\n{}\n0:{}\n1:{}", "v1\n{}", "v1\n{}\n{}\n{}", ""])
def test_the_offset_log_of_another_job_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="checkpoint of its own"):
        parse_offset_log(text)


def of_files(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> Checkpoint:
    spark: Any = None
    monkeypatch.setattr(Checkpoint, "_read", lambda _, name: files.get(name))
    return Checkpoint(spark, "/lake/_checkpoints/clicks/")


def test_the_querys_id_is_read_as_spark_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_files(monkeypatch, {"metadata": '{"id":"q-1"}'}).query_id() == "q-1"
    assert of_files(monkeypatch, {}).query_id() is None


@pytest.mark.parametrize("text", ["", '{"id":"q', "hello", "[]", "{}", "1", "null", '{"id": 5}', "[" * 99_999])
def test_a_damaged_metadata_file_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^/lake/_checkpoints/clicks/metadata: .* a new checkpoint") as caught:
        of_files(monkeypatch, {"metadata": text}).query_id()
    assert re.search(re.escape(repr(text[:60])), str(caught.value))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text", ["", "v1\n{}", 'v1\n{"batchWatermarkMs":0}\n{"1:clicks:0": {"0": 28', "v1\n{}\n" + "[" * 99_999]
)
def test_a_damaged_offset_log_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^/lake/_checkpoints/clicks/offsets/7: "):
        of_files(monkeypatch, {"offsets/7": text}).end_of(7)
