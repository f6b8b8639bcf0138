"""Files that tasks write: what is in them, and that what Delta is told of them bounds it."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StringType, StructField, StructType

from spark_source.typed.record_format import RecordFormat
from tubeclient.errors import DeadlineExceeded
from tubeclient.records import RecordSpec
from tubeclient_ingest.tables.data_files import DataFile, DataFiles, FileDestination
from tubeclient_ingest.tables.partition_values import is_refused
from tubeclient_ingest.tasks import staging
from tubeclient_ingest.tasks.arrow_rows import divided

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written(folder: Path, *tables: pa.Table, partition_by: Sequence[str] = (), indexed: int = 32) -> list[DataFile]:
    files = DataFiles(FileDestination(str(folder), tables[0].schema, tuple(partition_by), indexed))
    for one in tables:
        files.add(one)
    return files.close()


def stats_of(folder: Path, *tables: pa.Table, **how: Any) -> dict[str, Any]:
    [one] = written(folder, *tables, **how)
    found: dict[str, Any] = json.loads(one.stats)
    return found


def bounds(folder: Path, values: list[Any], kind: pa.DataType) -> tuple[Any, Any]:
    found = stats_of(folder, pa.table({"v": pa.array(values, kind)}))
    return found["minValues"].get("v"), found["maxValues"].get("v")


def test_a_file_has_the_rows_and_says_what_they_are(tmp_path: Path) -> None:
    table = pa.table({"id": [3, None, 1], "in": [{"name": "b", "n": 1.5}, None, {"name": "a", "n": None}]})
    [one] = written(tmp_path, table)
    assert pq.read_table(tmp_path / one.path).equals(table)
    assert one.size == (tmp_path / one.path).stat().st_size
    assert json.loads(one.stats) == {
        "numRecords": 3,
        "minValues": {"id": 1, "in": {"name": "a", "n": 1.5}},
        "maxValues": {"id": 3, "in": {"name": "b", "n": 1.5}},
        "nullCount": {"id": 1, "in": {"name": 1, "n": 2}},
    }


@pytest.mark.parametrize(
    ("values", "kind", "low", "high"),
    [
        ([1.5, math.nan], pa.float64(), None, None),  # Spark takes NaN for the greatest
        ([math.nan, None], pa.float32(), None, None),
        ([-math.inf, 1.0], pa.float64(), None, None),  # JSON has no infinity
        ([-0.0, 0.0], pa.float64(), 0.0, 0.0),
        (["a" * 31 + "b", "z"], pa.string(), "a" * 31 + "b", "z"),
        (["a" * 40, "b" * 40], pa.string(), "a" * 32, "b" * 32 + "\U0010ffff"),
        (["a", "b" * 32 + "\U0010ffff\U0010ffff"], pa.string(), None, None),
        (["", None], pa.string(), "", ""),
        ([None, None], pa.string(), None, None),
        ([b"a"], pa.binary(), None, None),
        ([True, False], pa.bool_(), None, None),
        ([1_999, 2_001], pa.timestamp("us", "UTC"), "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.003Z"),
        ([-1], pa.timestamp("us", "UTC"), "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z"),
        ([-1], pa.timestamp("us"), "1969-12-31T23:59:59.999", "1970-01-01T00:00:00.000"),
        ([0, 1 << 60], pa.timestamp("us", "UTC"), None, None),  # no such year
        ([date(1, 1, 1), date(9999, 12, 31)], pa.date32(), "0001-01-01", "9999-12-31"),
        ([-1_000_000], pa.date32(), None, None),
        ([Decimal("1.10"), Decimal("2.50")], pa.decimal128(10, 2), 1.1, 2.5),
        ([Decimal("12345678901234567890.12")], pa.decimal128(30, 2), None, None),  # no double has these digits
    ],
)
def test_bounds(tmp_path: Path, values: list[Any], kind: pa.DataType, low: Any, high: Any) -> None:
    assert bounds(tmp_path, values, kind) == (low, high)


@given(st.lists(st.text(max_size=70), min_size=1, max_size=5), st.lists(st.integers(-(1 << 55), 1 << 55), min_size=1))
def test_bounds_bound(tmp_path_factory: pytest.TempPathFactory, texts: list[str], moments: list[int]) -> None:
    folder = tmp_path_factory.mktemp("bounds")
    low, high = bounds(folder, texts, pa.string())
    if low is not None:
        assert all(low.encode() <= one.encode() <= high.encode() for one in texts)
    low, high = bounds(folder, moments, pa.timestamp("us", "UTC"))
    years = [EPOCH.timestamp() + one / 1e6 for one in moments]
    if low is not None:
        assert all(datetime.fromisoformat(low) <= EPOCH + timedelta(microseconds=one) for one in moments)
        assert all(EPOCH + timedelta(microseconds=one) <= datetime.fromisoformat(high) for one in moments)
    else:
        assert min(years) < datetime(2, 1, 1, tzinfo=UTC).timestamp() or max(years) > 253_402_300_799


def test_a_nan_in_any_of_the_rows_leaves_no_bound(tmp_path: Path) -> None:
    parts = [pa.table({"v": pa.array(one, pa.float64())}) for one in ([1.0], [math.nan], [2.0], [3.0])]
    assert stats_of(tmp_path, *parts)["maxValues"] == {}


def test_lists_and_maps_have_no_numbers_of_rows(tmp_path: Path) -> None:
    kind = pa.struct([("list", pa.list_(pa.int64())), ("map", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())])
    found = stats_of(tmp_path, pa.table({"s": pa.array([{"list": [1, 2], "map": [("a", 1)], "n": 7}], kind)}))
    assert found["nullCount"] == {"s": {"n": 0}}
    assert found["maxValues"] == {"s": {"n": 7}}


def test_names_that_look_like_paths(tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.float64()), (".a", pa.float64())])
    found = stats_of(tmp_path, pa.table({"s": pa.array([{"a": 1.0, ".a": math.nan}, {"a": 2.0, ".a": 3.0}], kind)}))
    assert found["maxValues"] == {"s": {"a": 2.0}}
    schema = StructType([StructField("a", StringType()), StructField(".a", StringType())])
    form = RecordFormat.of(schema, RecordSpec(kind="json", schema=pa.schema([])))
    [rows] = form.decoding(all_values=True)(iter([pa.RecordBatch.from_pydict({"value": [b'{"a": "", ".a": "x"}']})]))
    assert divided(form, rows, (".a",))[0].num_rows == 1
    assert divided(form, rows, ("a",))[0].num_rows == 0


def test_only_the_first_columns_are_indexed(tmp_path: Path) -> None:
    table = pa.table({f"c{n}": [n] for n in range(5)})
    assert list(stats_of(tmp_path, table, indexed=2)["minValues"]) == ["c0", "c1"]
    assert len(stats_of(tmp_path, table, indexed=-1)["minValues"]) == 5


def test_each_partition_has_its_files(tmp_path: Path) -> None:
    days = pa.array([date(2026, 1, 2), None, date(2026, 1, 2), date(2026, 1, 3)])
    table = pa.table({"v": [1, 2, 3, 4], "day": days, "ok": [True, True, None, True], "n": [1, 1, 1, None]})
    found = written(tmp_path, table, table, partition_by=("day", "ok", "n"))
    rows = {tuple(one.partition_values.values()): pq.read_table(tmp_path / one.path).to_pydict() for one in found}
    assert rows == {
        ("2026-01-02", "true", "1"): {"v": [1, 1]},
        (None, "true", "1"): {"v": [2, 2]},
        ("2026-01-02", None, "1"): {"v": [3, 3]},
        ("2026-01-03", "true", None): {"v": [4, 4]},
    }


def test_rows_that_come_after_a_flush_are_another_file(tmp_path: Path) -> None:
    files = DataFiles(FileDestination(str(tmp_path), pa.schema({"v": pa.int64()})))
    for number in range(4):
        files.add(pa.table({"v": [number]}))
        assert files.buffered_bytes > 0
        if number == 1:
            files.flush()
            assert files.buffered_bytes == 0
    found = files.close()
    assert [pq.read_table(tmp_path / one.path).column("v").to_pylist() for one in found] == [[0, 1], [2, 3]]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the task that writes to the table does not find its folder, .*/gone"):
        written(tmp_path / "gone", pa.table({"v": [1]}))


def test_folder_removed_during_writes(tmp_path: Path) -> None:
    """Closing the files fails and makes no folder if somebody removes it during the writes."""
    folder = tmp_path / "table"
    folder.mkdir()
    files = DataFiles(FileDestination(str(folder), pa.schema({"v": pa.int64(), "p": pa.string()}), ("p",)))
    files.add(pa.table({"v": [1], "p": ["a"]}))
    files.flush()
    shutil.rmtree(folder)
    files.add(pa.table({"v": [1], "p": ["b"]}))
    with pytest.raises(FileNotFoundError):
        files.close()
    assert not folder.exists()


def test_many_partitions_need_few_open_files(tmp_path: Path) -> None:
    count = 300
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 50, before[1]))
    try:
        found = written(tmp_path, pa.table({"v": range(count), "p": list(map(str, range(count)))}), partition_by=("p",))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(found) == count


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("", True),
        ("__HIVE_DEFAULT_PARTITION__", True),
        ("a\x00b", True),
        ("x" * 253, False),  # with "p=" a folder's name has 255 bytes
        ("x" * 254, True),
        ("é" * 127, True),
        ("/" * 84, False),
        ("/" * 85, True),
        (None, False),
        ("a b=c%20\n", False),
    ],
)
def test_what_cannot_partition_a_table(value: str | None, refused: bool) -> None:
    assert is_refused(pa.array([value], pa.string()), "p").to_pylist() == [refused]


def test_a_task_holds_few_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of all tables together: when they are many bytes, all go to files."""
    batches = [pa.RecordBatch.from_pydict({"v": [number] * 100}) for number in range(6)]
    monkeypatch.setattr(staging, "read_task", lambda *_: iter(batches))
    monkeypatch.setattr(staging, "_BUFFERED_BYTES", 2 * batches[0].nbytes)
    route = staging.Route(RecordFormat(), 1, FileDestination(str(tmp_path), batches[0].schema), None)
    nothing: Any = None
    numbers = iter([pa.RecordBatch.from_pydict({"n": [0]})])
    [result] = staging.stage_tasks(nothing, [nothing], None, staging.Routing(), {"": route}, numbers)
    [text] = result.column(0).to_pylist()
    staged = staging.merged([text], {"": route})[""]
    rows = [pq.read_table(tmp_path / one.path).column("v").unique().to_pylist() for one in staged.files]
    assert (rows, staged.rows, staged.total) == ([[0, 1], [2, 3], [4, 5]], 600, 600)


def test_what_the_source_says_is_no_fault_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeadlineExceeded is an OSError too."""

    def read_task(*_: object) -> Iterator[pa.RecordBatch]:
        raise DeadlineExceeded("broker 10.0.0.1:8123 did not answer in 60 s")
        yield

    monkeypatch.setattr(staging, "read_task", read_task)
    nothing: Any = None
    numbers = iter([pa.RecordBatch.from_pydict({"n": [0]})])
    with pytest.raises(DeadlineExceeded, match="did not answer"):
        list(staging.stage_tasks(nothing, [nothing], None, staging.Routing(), {}, numbers))
