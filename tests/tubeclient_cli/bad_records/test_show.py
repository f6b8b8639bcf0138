"""`tubeclient bad-records show` on a table as the ingest job writes it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app
from tubeclient_ingest.history import Commit, state_of
from tubeclient_ingest.record import SinkRecord

T0 = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)
KEY = PartitionKey(1, "clicks", 0)


def row(number: int, reason: str | None, **more: Any) -> dict[str, Any]:
    """A bad record of the commit `number` + 1 of the run r."""
    return {
        "consumerGroup": "clicks_etl",
        "target": "file:/gone/target",
        "targetId": "id-1",
        "runId": "r",
        "retryOf": None,
        "sequence": 1 + number,
        "topic": "clicks",
        "partitionKey": "1:clicks:0",
        "offset": None,
        "messageId": 100 + number,
        "recordIndex": 2,
        "value": b"{broken\x00" + b"%d" % number,
        "reason": reason,
        "time": T0 + timedelta(minutes=number),
        "id": f"id-{number}",
        **more,
    }


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("consumerGroup", "target", "targetId", "runId", "retryOf")),
        *(("sequence", pa.int64()), ("topic", pa.string()), ("partitionKey", pa.string()), ("offset", pa.int64())),
        *(("messageId", pa.int64()), ("recordIndex", pa.int32()), ("value", pa.binary()), ("reason", pa.string())),
        *(("time", pa.timestamp("us", "UTC")), ("id", pa.string())),
    ]
)


def write(uri: str, *rows: dict[str, Any]) -> str:
    write_deltalake(uri, pa.Table.from_pylist(rows, schema=SCHEMA))
    return uri


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Of targets of which one is there, and lacks the commits of its records."""
    rows = [row(number, "the text is not JSON") for number in range(3)]
    rows.append(row(3, "it's [bold]empty[/bold]", value=b"x" * 100, offset=280, recordIndex=None))
    rows.append(row(4, "the text is not JSON", consumerGroup="o'hara", value=None))
    there = Target(tmp_path / "target")
    rows.append(row(5, "the text is not JSON", **there.columns))
    return write(str(tmp_path / "bad"), *rows)


class Target:
    """A target, whose location is written as Spark writes it."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self.sequence = 0
        write_deltalake(self._path, pa.table({"a": [1]}))

    @property
    def _table(self) -> DeltaTable:
        return DeltaTable(self._path)

    @property
    def columns(self) -> dict[str, str]:
        return {"target": f"file:{self._path}", "targetId": str(self._table.metadata().id)}

    def commit(self, run: str = "r", *, is_retry: bool = False) -> None:
        """One of the group's, with the next number."""
        commits = [
            Commit(
                one["version"],
                one["operation"],
                one.get("operationParameters", {}),
                {},
                SinkRecord.parse(one.get("userMetadata")),
            )
            for one in self._table.history()
        ]
        state = state_of(commits, "clicks_etl", self.columns["targetId"])
        state = replace(state, sequence=self.sequence)
        record = state.numbered(SinkRecord("clicks_etl", run, Offsets({KEY: 28}), is_retry=is_retry))
        self.sequence = record.sequence
        properties = CommitProperties(custom_metadata={"userMetadata": record.to_json()})
        write_deltalake(self._path, pa.table({"a": [1]}), mode="append", commit_properties=properties)

    def restore(self, version: int) -> None:
        self._table.restore(version)


def show(table: str, *more: str) -> Result:
    return CliRunner().invoke(app, ["bad-records", "show", table, *more], env={"COLUMNS": "200"})


def shown(table: str, *more: str) -> dict[str, Any]:
    result = show(table, "--json", *more)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.output)
    return document


def ids(document: dict[str, Any]) -> list[int]:
    return [one["messageId"] for one in document["newest"]]


def test_the_newest_come_first_and_reasons_are_counted(table: str) -> None:
    document = shown(table)
    assert (document["records"], ids(document)) == (5, [104, 103, 102, 101, 100])
    assert [(one["consumerGroup"], one["reason"], one["records"], one["newest"]) for one in document["reasons"]] == [
        ("clicks_etl", "the text is not JSON", 3, "2026-11-23T10:02:00+00:00"),
        ("clicks_etl", "it's [bold]empty[/bold]", 1, "2026-11-23T10:03:00+00:00"),
        ("o'hara", "the text is not JSON", 1, "2026-11-23T10:04:00+00:00"),
    ]
    assert document["newest"][2] == {
        "consumerGroup": "clicks_etl",
        "state": "bad",
        "time": "2026-11-23T10:02:00+00:00",
        "reason": "the text is not JSON",
        "topic": "clicks",
        "partition": "1:clicks:0",
        "offset": None,
        "messageId": 102,
        "recordIndex": 2,
        "runId": "r",
        "sequence": 3,
        "target": "file:/gone/target",
        "targetId": "id-1",
        "valueBase64": "e2Jyb2tlbgAy",
    }


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--consumer-group", "o'hara"], [104]),
        (["--consumer-group", " o'hara "], [104]),
        (["--reason", "IT'S"], [103]),
        (["--reason", "%"], []),
        (["--newest", "2"], [104, 103]),
        (["--state", "undone"], [105]),
        (["--state", "all", "--reason", "JSON", "--newest", "1"], [105]),
    ],
)
def test_filters(table: str, filters: list[str], found: list[int]) -> None:
    assert ids(shown(table, *filters)) == found


def test_no_reason_is_left_out_where_few_records_are_shown(table: str) -> None:
    document = shown(table, "--newest", "1")
    assert (ids(document), document["reasonsInAll"]) == ([104], 3)
    assert sum(one["records"] for one in document["reasons"]) == 5


def test_reasons_that_are_too_many_are_counted(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tubeclient_cli.bad_records.table._MOST_REASONS", 2)
    assert "3 reasons, of which the 2 most frequent are shown" in show(table).output
    document = shown(table)
    assert (document["reasonsInAll"], [one["records"] for one in document["reasons"]]) == (3, [3, 1])


def test_a_table_without_bad_records_yet_is_no_error(table: str, tmp_path: Path) -> None:
    # As the job creates it when it starts.
    uri = str(tmp_path / "empty")
    write_deltalake(uri, DeltaTable(table).to_pyarrow_table().slice(0, 0))
    done = show(uri)
    assert (done.exit_code, done.output) == (
        0,
        "there are no records in the state bad; --state all shows every state\n",
    )
    assert show(uri, "--state", "all").output == "there are no records\n"
    assert shown(uri)["records"] == 0


def test_nothing_is_said_in_a_sentence(table: str) -> None:
    nobody = ["--consumer-group", "nobody"]
    told = "no records match in the state retried; --state all shows every state\n"
    assert show(table, *nobody, "--state", "retried").output == told
    assert show(table, *nobody, "--state", "all").output == "no records match\n"


def test_sparks_name_of_a_table_is_refused() -> None:
    result = show("s3a://lake/bad")
    assert (result.exit_code, "this command reads it as s3://" in result.output) == (2, True)


def test_a_state_that_there_is_not_is_refused(table: str) -> None:
    result = show(table, "--state", "lost")
    assert result.exit_code == 2
    assert "--state is 'lost'; write one of bad, retried, undone, all" in result.output


def test_people_get_tables_in_which_nothing_is_taken_for_markup(table: str) -> None:
    text = show(table).output
    assert "it's [bold]empty[/bold]" in text
    assert "{broken\\x002" in text
    assert "x... (100 bytes)" in text
    assert text.splitlines()[-1] == "5 records, of which the newest 5 are shown"


@pytest.mark.parametrize("column", ["consumerGroup", "time", "reason"])
def test_a_row_that_another_tool_wrote_is_one_line(table: str, column: str) -> None:
    DeltaTable(table).update(updates={column: "NULL"}, predicate='"messageId" = 101')
    result = show(table, "--state", "all")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert f"the table of bad records {table} has a row without {column}; another tool wrote it" in result.output


def test_what_is_not_such_a_table_is_told_in_one_line(tmp_path: Path) -> None:
    for place, said in (
        (tmp_path / "none", "check the path. `tubeclient ingest --bad-records` creates the table when it starts"),
        (tmp_path / "other", "has no consumerGroup. Is it the target?"),
    ):
        if place.name == "other":
            write_deltalake(str(place), pa.table({"a": [1]}))
        result = show(str(place))
        assert (result.exit_code, result.output.count("\n")) == (2, 1)
        assert said in result.output


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_table_that_cannot_be_read_is_one_line(table: str, form: tuple[str, ...]) -> None:
    result = show(table + "\udcff", *form)
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "is not UTF-8" in result.output
    for file in Path(table).glob("*.parquet"):
        file.unlink()
    result = show(table, *form)
    assert (result.exit_code, result.output.count("\n")) == (3, 1)
    assert f"{table} cannot be read: " in result.output


def states(table: str) -> dict[int, str]:
    """By the numbers of the rows."""
    return {one["messageId"] - 100: one["state"] for one in shown(table, "--state", "all")["newest"]}


def test_a_record_counts_once_the_target_has_its_commit(tmp_path: Path) -> None:
    target = Target(tmp_path / "target")
    target.commit("r")
    target.commit("other")
    rows = [row(number, "bad", **target.columns) for number in range(3)]  # of commits 1, 2 and 3
    table = write(str(tmp_path / "bad"), *rows)
    assert states(table) == {0: "bad", 1: "undone", 2: "undone"}
    target.commit("r")
    assert states(table) == {0: "bad", 1: "undone", 2: "bad"}


def test_what_restore_took_out_is_undone(tmp_path: Path) -> None:
    target = Target(tmp_path / "target")
    for _ in range(3):
        target.commit()
    table = write(str(tmp_path / "bad"), *(row(number, "bad", **target.columns) for number in range(4)))
    target.restore(1)
    assert states(table) == {0: "bad", 1: "undone", 2: "undone", 3: "undone"}
    target.commit()
    assert states(table) == {0: "bad", 1: "undone", 2: "undone", 3: "bad"}


def test_a_record_is_retried_while_the_target_has_the_retrys_commit(tmp_path: Path) -> None:
    target = Target(tmp_path / "target")
    target.commit()
    rows = [row(0, "bad", **target.columns), row(0, "bad", **target.columns, id="other", messageId=105)]
    table = write(str(tmp_path / "bad"), *rows)
    mark = row(1, None, **target.columns, id=None, retryOf="id-0")
    write_deltalake(table, pa.Table.from_pylist([mark], schema=SCHEMA), mode="append")
    assert states(table) == {0: "bad", 5: "bad"}
    target.commit(is_retry=True)
    assert states(table) == {0: "retried", 5: "bad"}
    target.restore(1)
    assert states(table) == {0: "bad", 5: "bad"}


def test_a_target_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    target = Target(tmp_path / "target")
    here = row(0, "bad", **target.columns)
    another = row(2, "bad", target="s3://key:geheim@lake/t", consumerGroup="o'hara")
    rows = [here, row(1, "bad", target=target.columns["target"]), another]
    table = write(str(tmp_path / "bad"), *rows)
    assert states(table) == {0: "undone", 1: "bad", 2: "bad"}
    lines = show(table).output.splitlines()
    for place in (target.columns["target"], "s3://lake/t"):
        assert f"the target {place} cannot be read here, so none of its records counts as undone" in lines
    assert "geheim" not in "".join(lines)
