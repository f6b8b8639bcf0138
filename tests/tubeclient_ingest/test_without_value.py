"""A table of bad records that keeps no values: what is in it, what a retry does with it, and that nothing is twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.bench import Bench
from tests.tubeclient_ingest.lake import Killed, each_commit
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.retrying import Retried

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark

MARK = "Zq7xSecret"
UNREAD = b"\0\0\0\x63" + MARK.encode()
"""Says that 99 bytes of attributes follow."""
BODIES = [b'{"id": 1, "name": "a"}', f'{{"id": "{MARK}"}}'.encode(), f'{{"{MARK}": '.encode(), b'{"id": 20}']


def how(bench: Bench, writer: str, **more: Any) -> dict[str, Any]:
    own = {"bad_records": str(bench.folder / "bad"), "bad_records_without_value": True, "writer": writer}
    return {"format": "json", "schema": "id BIGINT NOT NULL, name STRING", "max_offsets_per_trigger": 4, **own, **more}


def send(bench: Bench, *bodies: bytes) -> None:
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])
    bench.tube.load("clicks", [NewMessage(10_000, UNREAD, 1)])


def kept(bench: Bench) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(bench.folder / "bad")).to_pyarrow_table().to_pylist()
    return rows


def is_anywhere(folder: Path) -> list[Path]:
    """The files in which the mark is, compressed ones not."""
    return [one for one in folder.rglob("*") if one.is_file() and MARK.encode() in one.read_bytes()]


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_columns_without_the_value(bench: Bench, writer: str) -> None:
    """A bad record has its place and its reason, and its value is in no file of the table."""
    table = f"delta.`{bench.settings.target}`"
    if writer == "spark":  # which also judges by the table's own rules
        bench.run(**how(bench, writer))
        bench.spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT few CHECK (id < 10)").collect()
    send(bench, *BODIES)
    rounds = bench.run(**how(bench, writer))
    bad = 4 if writer == "spark" else 3
    assert (sum(one.rows for one in rounds), sum(one.bad_rows for one in rounds)) == (5 - bad, bad)
    rows = kept(bench)
    assert [row["value"] for row in rows] == [None] * bad
    assert all(row["reason"] and row["messageId"] and row["partitionKey"] and row["offset"] is not None for row in rows)
    assert [row for row in rows if MARK in str(row)] == []
    assert sum(row["unread"] for row in rows) == 1
    assert is_anywhere(bench.folder / "bad") == []
    job = bench.job(**how(bench, writer))
    assert job.retry() == job.retry(dry_run=True) == Retried(0, 0, 1, bad - 1)
    assert job.retry("not of type bigint") == Retried(0, 0, 0, 1)
    assert job.bad_records().where("state = 'bad'").count() == bad


def test_retry_of_some_records_without_values(bench: Bench) -> None:
    """A retry tries records that have a value and skips those that have none."""
    send(bench, b"id=7")
    bench.run(**how(bench, "tasks", bad_records_without_value=False))
    send(bench, b"id=9")
    bench.run(**how(bench, "tasks"))
    job = bench.job(**how(bench, "tasks", format="kv"))
    assert job.retry() == Retried(1, 0, 2, 1)
    assert DeltaTable(bench.settings.target).to_pyarrow_table().column("id").to_pylist() == [7]
    assert job.bad_records().where("state = 'bad' AND value IS NULL").count() == 2
    assert job.retry() == Retried(0, 0, 2, 1)


@pytest.mark.parametrize("writer", ["tasks", "spark"])
@pytest.mark.parametrize("after", [False, True])
def test_a_record_that_is_met_again_is_there_once(bench: Bench, writer: str, after: bool) -> None:
    """A run dies between the two commits of a round, or after both."""
    bench.run(**how(bench, writer))
    send(bench, *BODIES)

    def around(_: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        is_last = record is not None and record.bad > 0
        if after or not is_last:
            commit()
        if is_last:
            raise Killed

    with each_commit(around), pytest.raises(Killed):
        bench.run(**how(bench, writer, max_offsets_per_trigger=None))
    assert len(kept(bench)) == 3
    send(bench, b"no")
    bench.run(**how(bench, writer))
    assert len({(row["partitionKey"], row["offset"]) for row in kept(bench)}) == len(kept(bench)) == 5
    assert {row["value"] for row in kept(bench)} == {None}
    assert bench.job(**how(bench, writer)).bad_records().where("state = 'bad'").count() == 5
