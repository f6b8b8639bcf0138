"""What the sink's commits say about themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.staged import StagedBad
from tubeclient_cli.ingest.target_table import SparkTargetTable

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
RECORD = SinkRecord("g", "query-1", 7, Offsets({A: 280, B: 560}), 12, 30, ("10.0.0.1:8715",))


def test_a_record_survives_the_commit() -> None:
    assert SinkRecord.parse(RECORD.to_json()) == RECORD
    first = SinkRecord("g", "query-1", 0, Offsets({}), 1, None)
    assert SinkRecord.parse(first.to_json()) == first
    assert json.loads(RECORD.to_json())["tubeclient"]["endOffsets"] == {
        "1:clicks:0": {"0": 280},
        "1:clicks:1": {"10000": 560},
        "version": 1,
    }


def test_the_transaction_is_the_groups_whatever_the_checkpoint() -> None:
    other = SinkRecord("g", "query-2", 0, Offsets({}), 13)
    assert RECORD.transaction_id == other.transaction_id == "tubeclient:g"
    assert SinkRecord("h", "query-1", 7, Offsets({})).transaction_id != RECORD.transaction_id


def test_bad_records_and_what_restore_undid_survive_the_commit() -> None:
    full = StagedBad("/lake/bad", "f-12-x", 3, retried=True, earlier_tables=("/lake/old", "/lake/older"))
    for bad in (full, StagedBad("/lake/bad")):
        record = replace(RECORD, bad=bad, undone=((2, 3), (7, 11)), known_from=2)
        assert SinkRecord.parse(record.to_json()) == record


def test_the_table_has_what_restore_did_not_undo() -> None:
    record = replace(RECORD, undone=((2, 3), (7, 11)))
    assert record.held == ((1, 1), (4, 6), (12, 12))
    assert replace(record, known_from=2).held == ((4, 6), (12, 12))
    assert replace(record, undone=()).held == ((1, 12),)


@pytest.mark.parametrize(
    ("version", "message"), [(2, "commits to the target have version 2, of a newer release"), (None, "have no version")]
)
def test_a_record_of_another_version_is_refused_by_name(version: int | None, message: str) -> None:
    document = json.loads(RECORD.to_json())
    document["tubeclient"]["version"] = version
    with pytest.raises(ConfigurationError, match=message):
        SinkRecord.parse(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumerGroup", 5),
        ("queryId", None),
        ("batchId", "x"),
        ("batchId", -1),
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
        ("badRecords", {"table": "/bad", "staged": {}, "count": 1, "retried": False, "earlierTables": []}),
        ("badRecords", {"table": "/bad", "staged": None, "count": "1", "retried": 0, "earlierTables": [None]}),
    ],
)
def test_a_record_that_somebody_changed_is_refused_by_name(name: str, value: object) -> None:
    document = json.loads(RECORD.to_json())
    document["tubeclient"][name] = value
    with pytest.raises(ConfigurationError):
        SinkRecord.parse(json.dumps(document))


@pytest.mark.parametrize(
    "name", ["consumerGroup", "queryId", "batchId", "sequence", "basedOn", "masterServers", "endOffsets"]
)
def test_a_record_that_is_cut_is_refused_by_name(name: str) -> None:
    document = json.loads(RECORD.to_json())
    del document["tubeclient"][name]
    with pytest.raises(ConfigurationError, match=f"with no {name}:|offsets must be"):
        SinkRecord.parse(json.dumps(document))


@pytest.mark.parametrize("text", [None, "", "by hand", "[]", '"x"', '{"other": {}}', '{"tubeclient": 1}', "[" * 99_999])
def test_other_peoples_metadata_is_not_a_record(text: str | None) -> None:
    assert SinkRecord.parse(text) is None


def test_a_commit_with_a_foreign_record_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    spark: Any = None
    table = SparkTargetTable(spark, "/lake/clicks")
    row = SimpleNamespace(version=3, operation="WRITE", operationParameters={}, operationMetrics={}, isBlindAppend=True)
    row.userMetadata = '{"tubeclient": {"version": 1}}'
    history = SimpleNamespace(select=lambda *_: SimpleNamespace(collect=lambda: [row]))
    monkeypatch.setattr(table, "_table", lambda: SimpleNamespace(history=lambda _: history))
    with pytest.raises(
        ConfigurationError, match=r"^version 3 of /lake/clicks: the commit's userMetadata has a record of the"
    ):
        table.history(10)
