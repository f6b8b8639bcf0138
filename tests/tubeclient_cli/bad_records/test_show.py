"""What `tubeclient bad-records show` makes of a job's bad records; their states are tests of tubeclient_ingest's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import functions as F
from typer.testing import CliRunner, Result

from tubeclient_cli.app import app
from tubeclient_cli.facts.bad_records import found_bad_records
from tubeclient_ingest.job import Ingest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T0 = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)
_COLUMNS = "time TIMESTAMP, sequence BIGINT, state STRING, reason STRING, inlongStreamId STRING"
_MORE = "topic STRING, partitionKey STRING, offset BIGINT, messageId BIGINT, recordIndex INT, value BINARY"


@pytest.fixture
def records(delta_spark: SparkSession) -> DataFrame:
    place = (None, "clicks", "1:clicks:0", None)
    rows: list[tuple[Any, ...]] = [
        (T0 + timedelta(minutes=n), n, "bad", "the text is not JSON", *place, 100 + n, 2, b"{broken\x00%d" % n)
        for n in range(3)
    ]
    rows.append((T0 + timedelta(minutes=3), 3, "bad", "it's [bold]empty[/bold]", *place, 103, None, b"x" * 500))
    rows.append((T0 + timedelta(minutes=4), 4, "undone", "the text is not JSON", *place, 104, None, None))
    return delta_spark.createDataFrame(rows, f"{_COLUMNS}, {_MORE}")


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: DataFrame) -> Any:
    monkeypatch.setattr("tubeclient_cli.common.session.make_session", lambda *_, **__: MagicMock())
    monkeypatch.setattr("tubeclient_cli.common.session.end_session", lambda _: None)
    monkeypatch.setattr(Ingest, "bad_records", lambda _: records)
    path = tmp_path / "ingest.toml"
    names = 'master-servers = "h:1"\nconsumer-group = "g"\ntopics = ["t"]\ntarget = "/t"\nbad-records = "/b"\n'
    path.write_text(f"[ingest]\n{names}")

    def run(*more: str) -> Result:
        words = ["bad-records", "show", "--settings", str(path), *more]
        return CliRunner().invoke(app, words, env={"COLUMNS": "200"})

    return run


@pytest.mark.spark
@pytest.mark.parametrize(
    ("reason", "since", "newest", "found"),
    [
        (None, None, 20, [103, 102, 101, 100]),
        ("IT'S", None, 20, [103]),
        ("%", None, 20, []),
        (None, None, 2, [103, 102]),
        (None, T0 + timedelta(minutes=2), 20, [103, 102]),
        ("JSON", T0 + timedelta(minutes=1), 20, [102, 101]),
    ],
)
def test_the_newest_of_those_that_are_chosen(
    records: DataFrame, reason: str | None, since: datetime | None, newest: int, found: list[int]
) -> None:
    document = found_bad_records(records, reason, since, newest)
    assert [one["messageId"] for one in document["newest"]] == found


@pytest.mark.spark
def test_json_for_programs(show: Any) -> None:
    """With --json, the output has all reasons with counts and all bytes of a record."""
    document = json.loads(show("--newest", "2", "--json").stdout)
    assert document["records"] == 4
    assert document["reasons"] == [
        {"reason": "the text is not JSON", "records": 3, "newest": "2026-11-23T10:02:00.000+00:00"},
        {"reason": "it's [bold]empty[/bold]", "records": 1, "newest": "2026-11-23T10:03:00.000+00:00"},
    ]
    assert document["newest"][1] == {
        "time": "2026-11-23T10:02:00.000+00:00",
        "reason": "the text is not JSON",
        "inlongStreamId": None,
        "topic": "clicks",
        "partitionKey": "1:clicks:0",
        "offset": None,
        "messageId": 102,
        "recordIndex": 2,
        "value": "{broken\\x002",
        "valueBase64": "e2Jyb2tlbgAy",
    }


@pytest.mark.spark
def test_text_for_people(show: Any, records: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text shows each record and treats nothing in it as markup."""
    text = show().stdout
    where = "topic clicks, partition 1:clicks:0, message id 103: it's [bold]empty[/bold]"
    assert f"\n2026-11-23T10:03:00.000+00:00, {where}\n    {'x' * 400}... (500 bytes)\n" in text
    assert "message id 102, record 2: the text is not JSON\n    {broken\\x002\n" in text
    assert text.splitlines()[-1] == "4 records; showing the newest 4"
    assert "stream" not in text
    monkeypatch.setattr(Ingest, "bad_records", lambda _: records.withColumn("inlongStreamId", F.lit("orders")))
    assert ", stream orders, topic clicks, " in show().stdout
    for words in (["--reason", "xml"], ["--since", "2026-11-24"]):
        assert show(*words).stdout == "no bad records match\n"
    assert "'today' does not match the formats" in show("--since", "today").stderr
