"""What the sink's commits say about themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.record import Count, Reached, SinkRecord
from tubeclient_ingest.tables.spark_table import SparkTable

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
RECORD = SinkRecord("g", "run-1", Offsets({A: 280, B: 560}), 12, 30, ("10.0.0.1:8715",))


def test_a_record_survives_the_commit() -> None:
    assert SinkRecord.parse(RECORD.to_json()) == RECORD
    first = SinkRecord("g", "run-1", Offsets({}), 1, None)
    assert SinkRecord.parse(first.to_json()) == first
    assert json.loads(RECORD.to_json())["tubeclient"]["endOffsets"] == {
        "1:clicks:0": {"0": 280},
        "1:clicks:1": {"10000": 560},
        "version": 1,
    }


def test_retry_and_undone_numbers_survive() -> None:
    """Bad records, a retry, and undone numbers come back if a commit's record is parsed."""
    full = replace(RECORD, bad=3, retry_of=2, undone=((2, 3), (7, 11)), known_from=2, table_id="id-1")
    assert SinkRecord.parse(full.to_json()) == full


def test_where_streams_are_survives_the_commit() -> None:
    at = Offsets({A: 280})
    streams = {
        "a": Reached(3),
        "b": Reached(0, Offsets({A: 56})),
        "c": Reached(2, at, Offsets({B: 28})),
        "d": Reached(1, None, at),
    }
    counts = Count(None, 3), Count(60_000, 5, 2)
    full = replace(RECORD, streams={**streams, "e": Reached(-1)}, counts=counts)
    assert SinkRecord.parse(full.to_json()) == full


def test_counts_of_a_minute_add_up() -> None:
    one = Count(60_000, 3, 1)
    assert one.added({60_000: Count(60_000, 5, 2), None: Count(None, 7)}) == Count(60_000, 8, 3)
    assert one.added({}) == one


def test_the_table_has_what_restore_did_not_undo() -> None:
    record = replace(RECORD, undone=((2, 3), (7, 11)))
    assert record.committed_numbers == ((1, 1), (4, 6), (12, 12))
    assert replace(record, undone=()).committed_numbers == ((1, 12),)


@pytest.mark.parametrize(
    ("version", "message"),
    [(2, "commits to the target have version 2, written by a newer release"), (None, "have no version")],
)
def test_record_of_another_version(version: int | None, message: str) -> None:
    """Parsing refuses a record of a newer version or of none, and says so."""
    document = json.loads(RECORD.to_json())
    document["tubeclient"]["version"] = version
    with pytest.raises(ConfigurationError, match=message):
        SinkRecord.parse(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumerGroup", 5),
        ("runId", None),
        ("sequence", "x"),
        ("sequence", -1),
        ("sequence", float("inf")),
        ("sequence", True),
        ("basedOn", "3"),
        ("masterServers", "10.0.0.1:8715"),
        ("masterServers", [1]),
        ("endOffsets", None),
        ("endOffsets", {"version": 1, "clicks": {}}),
        ("undone", 7),
        ("undone", [[1]]),
        ("undone", [["1", "2"]]),
        ("undone", [[1, 2, 3]]),
        ("knownFrom", [1]),
        ("badRecords", []),
        ("badRecords", {}),
        ("badRecords", -1),
        ("badRecords", True),
        ("retryOf", True),
        ("tableId", 1),
    ],
)
def test_tampered_record(name: str, value: object) -> None:
    """Parsing refuses a record in which somebody changed or removed a field."""
    document = json.loads(RECORD.to_json())
    document["tubeclient"][name] = value
    with pytest.raises(ConfigurationError):
        SinkRecord.parse(json.dumps(document))
    del document["tubeclient"][name]
    with pytest.raises(ConfigurationError):
        SinkRecord.parse(json.dumps(document))


@pytest.mark.parametrize("text", [None, "", "by hand", "[]", '"x"', '{"other": {}}', '{"tubeclient": 1}', "[" * 99_999])
def test_other_peoples_metadata_is_not_a_record(text: str | None) -> None:
    assert SinkRecord.parse(text) is None


def test_a_commit_with_a_foreign_record_is_named() -> None:
    row = Row(version=3, operation="WRITE", isBlindAppend=True, userMetadata='{"tubeclient": {"version": 1}}')
    history = SimpleNamespace(collect=lambda: [row])
    spark: Any = SimpleNamespace(sql=lambda _: history)
    s3 = ("s3a://KEY:the/secret@lake/t", "delta.`s3a://lake/t`")
    for place, where in (("/lake/clicks", "delta.`/lake/clicks`"), ("lake.clicks", "lake.clicks"), s3):
        with pytest.raises(ConfigurationError) as caught:
            SparkTable(spark, place).history(10)
        assert str(caught.value).startswith(f"version 3 of {where}: the commit's userMetadata has a record of the")
