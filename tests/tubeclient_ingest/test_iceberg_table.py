"""An Iceberg table as the job looks at it and writes it, with pyiceberg's catalog in SQLite. Without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo, IsNull, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyiceberg.transforms import BucketTransform, DayTransform, Transform
from pyiceberg.types import StringType
from pyspark.sql import types as T

from offsets_store.errors import scrub
from spark_source.offsets.offsets import Offsets
from spark_source.read.schema import arrow_types
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.beginning import OvertakenRun, TableChanged, UnknownRows
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.tables.data_files import DataFiles
from tubeclient_ingest.tables.iceberg_catalog import open_catalog, secrets_in
from tubeclient_ingest.tables.iceberg_table import IcebergTable
from tubeclient_ingest.tables.spark_errors import LogError

KEY = PartitionKey(1, "clicks", 0)


def columns(*more: T.StructField, **kinds: T.DataType) -> T.StructType:
    return T.StructType([*more, *(T.StructField(name, kind) for name, kind in kinds.items())])


COLUMNS = columns(id=T.LongType(), name=T.StringType())


class Writing:
    """One driver of the group, which has the table open."""

    def __init__(
        self,
        warehouse: Path | None,
        name: str = "shop.orders",
        group: str = "g",
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.table = IcebergTable(None, name, None if warehouse is None else str(warehouse), options)
        self.sink = Sink(self.table, group)
        self.run_id = uuid.uuid4().hex
        self.group = group
        self.state = SinkState()

    def open(
        self,
        columns: T.StructType = COLUMNS,
        partition_by: tuple[str, ...] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> Writing:
        self.columns = columns
        if self.table.detail() is None:
            self.table.create(columns, partition_by, (), properties)
        detail = self.table.detail()
        assert detail is not None
        self.table.open_files()
        self.sink.numbers_after = self.table.last_number(SinkRecord.transaction_id_of(self.group), detail)
        self.state = self.sink.read_state()
        return self

    def write(self, *rows: Any, end: int = 0, state: SinkState | None = None) -> SinkState:
        schema = arrow_types(self.columns)
        files = DataFiles(self.table.destination(schema))
        if rows:
            files.add(pa.Table.from_pylist([dict(zip(schema.names, one, strict=True)) for one in rows], schema))
        record = SinkRecord(self.group, self.run_id, Offsets({KEY: end}))
        found = files.close()
        before = self.state if state is None else state
        self.state = self.sink.append(None, record, before, lambda numbered: self.table.commit(found, numbered))
        return self.state

    @property
    def handle(self) -> Table:
        return open_catalog(self.table._warehouse, self.table._catalog_name).load_table(self.table._name)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(one.values()) for one in self.handle.scan().to_arrow().to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_newest_snapshot_has_the_end(lake: Path) -> None:
    """The newest snapshot says where its group's rows end, and says nothing of other groups."""
    first = Writing(lake).open()
    assert first.state == SinkState(version=0, table_id=first.state.table_id)
    assert first.state.is_whole
    first.write((1, "a"), (2, None), end=56)
    first.write((3, "c"), end=84)
    assert first.rows() == [(1, "a"), (2, None), (3, "c")]
    again = Writing(lake).open()
    assert (again.state.sequence, dict(again.state.ends), again.state.rows) == (2, {KEY: 84}, 1)
    other = Writing(lake, group="other").open()
    assert other.state.record is None
    assert other.state.is_whole


def test_of_two_runs_one_commits(lake: Path) -> None:
    """Both have looked, and each would write the next number."""
    first, second = Writing(lake).open(), Writing(lake).open()
    first.write((1, "a"), end=28)
    with pytest.raises(OvertakenRun):
        second.write((1, "a"), end=28)
    assert first.rows() == [(1, "a")]


def test_others_appends_and_properties_are_no_conflict(lake: Path) -> None:
    one = Writing(lake).open()
    one.write((1, "a"), end=28)
    one.handle.append(pa.table({"id": [9], "name": ["x"]}))
    with one.handle.transaction() as change:
        change.set_properties(owner="them")
    one.write((2, "b"), end=56)
    assert one.rows() == [(1, "a"), (2, "b"), (9, "x")]
    assert Writing(lake).open().state.taken_out is None


def test_commit_on_a_stale_state(lake: Path) -> None:
    """What came since is looked at first: here it took rows out."""
    one = Writing(lake).open()
    one.write((1, "a"), (2, "b"), end=56)
    before = one.state
    one.handle.delete("id = 1")
    with pytest.raises(LogError, match="expected id"):
        one.write((3, "c"), end=84, state=before)
    assert one.rows() == [(2, "b")]
    taken = one.sink.read_state().taken_out
    assert taken is not None
    assert taken.everything


def test_a_schema_that_changed_is_another_table(lake: Path) -> None:
    one = Writing(lake).open()
    with one.handle.update_schema() as change:
        change.add_column("more", StringType())
    one.state = one.sink.read_state()
    with pytest.raises(TableChanged):
        one.write((1, "a"), end=28)
    assert one.handle.scan().to_arrow().num_rows == 0


def test_main_set_back_is_a_restore(lake: Path) -> None:
    one = Writing(lake).open()
    for number in range(4):
        one.write((number, "x"), end=28 * (number + 1))
    second = one.handle.snapshots()[1]
    one.handle.manage_snapshots().rollback_to_snapshot(second.snapshot_id).commit()
    again = Writing(lake).open()
    assert again.state.ends == {KEY: 56}
    assert again.state.sequence == 4
    assert again.state.undone is not None
    assert again.state.undone.sequence == 4
    after = again.write((7, "y"), end=84)
    assert after.record is not None
    assert (after.record.sequence, after.record.undone) == (5, ((3, 4),))
    assert [one[0] for one in again.rows()] == [0, 1, 7]
    assert Writing(lake).open().state.record == after.record


def test_commit_after_main_is_rolled_back(lake: Path) -> None:
    """Whoever looked at what the table is meanwhile: its version is what it was."""
    one = Writing(lake).open()
    for number in range(3):
        one.write((number, "x"), end=28 * (number + 1))
    handle = one.handle
    handle.manage_snapshots().rollback_to_snapshot(handle.snapshots()[0].snapshot_id).commit()
    one.table.detail()
    with pytest.raises(UnknownRows, match="was restored or recreated while this run wrote commit 4"):
        one.write((3, "y"), end=112)
    assert one.rows() == [(0, "x")]
    assert dict(Writing(lake).open().state.ends) == {KEY: 28}


def test_numbers_after_rollback_and_expiry(lake: Path) -> None:
    """Commit numbers go on after a rollback whose undone snapshots expired."""
    one = Writing(lake).open()
    for number in range(3):
        one.write((number, "x"), end=28 * (number + 1))
    handle = one.handle
    first, *later = handle.snapshots()
    handle.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    one.handle.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in later]).commit()
    again = Writing(lake).open()
    assert (dict(again.state.ends), again.state.sequence) == ({KEY: 28}, 3)
    after = again.write((7, "y"), end=56)
    assert after.record is not None
    assert (after.record.sequence, after.record.undone) == (4, ((2, 3),))


def test_expired_snapshots_hide_the_end(lake: Path) -> None:
    """The state does not say where rows end if the group's snapshots expired."""
    one = Writing(lake).open()
    one.write((1, "a"), end=28)
    one.handle.append(pa.table({"id": [9], "name": ["x"]}))
    handle = one.handle
    handle.maintenance.expire_snapshots().by_id(handle.snapshots()[0].snapshot_id).commit()
    state = Writing(lake).open().state
    assert (state.record, state.is_whole, state.sequence) == (None, False, 1)


def test_tagged_snapshot_among_expired_ones(lake: Path) -> None:
    """A snapshot that a tag preserves says nothing of later snapshots that expired."""
    one = Writing(lake).open()
    for number in range(4):
        one.write((number, "x"), end=28 * (number + 1))
    handle = one.handle
    first, second, third, fourth = handle.snapshots()
    handle.manage_snapshots().create_tag(second.snapshot_id, "kept").commit()
    one.handle.append(pa.table({"id": [99], "name": ["x"]}))
    one.handle.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in (first, third, fourth)]).commit()
    state = Writing(lake).open().state
    assert (state.record, state.is_whole, state.sequence, state.taken_out) == (None, False, 4, None)


def test_a_table_made_anew_has_no_rows_of_the_group(lake: Path) -> None:
    one = Writing(lake).open()
    one.write((1, "a"), end=28)
    open_catalog(str(lake), "default").drop_table(("shop", "orders"))
    again = Writing(lake).open()
    assert again.state.record is None
    assert again.state.is_whole
    with pytest.raises((TableChanged, UnknownRows)):
        one.write((2, "b"), end=56)
    assert again.rows() == []


def test_replaced_table_hides_the_end(lake: Path) -> None:
    """As CREATE OR REPLACE TABLE leaves it: the old snapshots are there, and `main` begins anew."""
    one = Writing(lake).open()
    one.write((1, "a"), end=28)
    handle = one.handle
    with handle.transaction() as change:
        change._apply(*_without_main(handle))
    state = Writing(lake).open().state
    assert (state.record, state.is_whole, state.sequence, state.undone_numbers) == (None, False, 1, ((1, 1),))
    one.handle.append(pa.table({"id": [9], "name": ["x"]}))
    state = Writing(lake).open().state
    assert (state.record, state.is_whole, state.sequence) == (None, False, 1)


def _without_main(handle: Table) -> Any:
    return (RemoveSnapshotRefUpdate.model_validate({"ref-name": "main"}),), ()


KINDS = columns(
    b=T.BooleanType(),
    t=T.ByteType(),
    s=T.ShortType(),
    i=T.IntegerType(),
    l=T.LongType(),
    f=T.FloatType(),
    d=T.DoubleType(),
    m=T.DecimalType(9, 2),
    n=T.DecimalType(18, 4),
    o=T.DecimalType(38, 10),
    x=T.StringType(),
    y=T.BinaryType(),
    a=T.DateType(),
    z=T.TimestampType(),
    w=T.TimestampNTZType(),
    u=T.ArrayType(T.ShortType()),
    p=T.MapType(T.StringType(), T.IntegerType()),
    q=columns(r=T.ByteType(), v=T.ArrayType(columns(k=T.StringType()))),
)


def test_extreme_values_of_all_types(lake: Path) -> None:
    """Extreme values of all types come back unchanged, and the files' bounds include them."""
    one = Writing(lake).open(KINDS)
    zone = ZoneInfo("UTC")
    at = datetime(1, 1, 1, tzinfo=zone)
    far = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=zone)
    low: tuple[Any, ...] = (
        *(False, -128, -32768, -(1 << 31), -(1 << 63), float("-inf"), -0.0, Decimal("-9999999.99")),
        *(
            Decimal("-99999999999999.9999"),
            Decimal(-1).scaleb(-10),
            "",
            b"",
            date(1, 1, 1),
            at,
            at.replace(tzinfo=None),
        ),
        *([], [], {"r": -128, "v": []}),
    )
    high: tuple[Any, ...] = (
        *(True, 127, 32767, (1 << 31) - 1, (1 << 63) - 1, float("nan"), float("inf"), Decimal("9999999.99")),
        *(
            Decimal("99999999999999.9999"),
            Decimal("1" + "0" * 27 + "." + "0" * 10),
            "\U0010ffff" * 40,
            b"\xff" * 40,
            date(9999, 12, 31),
            far,
        ),
        *(far.replace(tzinfo=None), [1, None], [("k", 1)], {"r": None, "v": [{"k": None}, None]}),
    )
    one.write(low, high, (None,) * len(low), end=28)
    found = one.handle.scan().to_arrow().to_pylist()
    assert [str(tuple(row.values())) for row in found] == [str(low), str(high), str((None,) * len(low))]
    for where, count in (
        ("l = 9223372036854775807", 1),
        ("l < -9223372036854775807", 1),
        ("m = -9999999.99", 1),
        ("n > 0", 1),
        ("o >= 1000000000000000000000000000", 1),
        ("a = '9999-12-31'", 1),
        ("z >= '9999-12-31T23:59:59.999999+00:00'", 1),
        ("d = 0.0", 1),
        ("x > 'z'", 1),
        ("t = 127", 1),
        ("x IS NULL", 1),
        ("f IS NAN", 1),
    ):
        assert one.handle.scan(row_filter=where).to_arrow().num_rows == count, where


def test_a_filter_passes_over_files(lake: Path) -> None:
    one = Writing(lake).open()
    one.write((1, "a"), end=28)
    one.write((5, "b"), end=56)
    assert len(list(one.handle.scan(row_filter="id = 5").plan_files())) == 1
    assert len(list(one.handle.scan(row_filter="id = 7").plan_files())) == 0


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (T.StringType(), ["", "a", None, "ä/=%", "x" * 300, "__HIVE_DEFAULT_PARTITION__"]),
        (T.IntegerType(), [-1, 0, None, 2147483647]),
        (T.LongType(), [-(1 << 63), None]),
        (T.DateType(), [date(1, 1, 1), date(1969, 12, 31), None, date(9999, 12, 31)]),
        (T.BooleanType(), [True, False, None]),
    ],
)
def test_partitions_have_their_values(lake: Path, kind: T.DataType, values: list[Any]) -> None:
    one = Writing(lake).open(columns(id=T.LongType(), part=kind), ("part",))
    one.write(*((number, value) for number, value in enumerate(values * 2)), end=28)
    files = one.handle.inspect.files().to_pylist()
    assert len(files) == len(values)
    assert {one["partition"]["part"] for one in files} == set(values)
    for value in values:
        part: Any = Reference("part")
        which = IsNull(part) if value is None else EqualTo(part, literal(value))  # type: ignore[call-arg, arg-type]
        found = one.handle.scan(row_filter=which).to_arrow()
        assert found.column("part").to_pylist() == [value] * 2


@pytest.mark.parametrize("kind", ["day", "bucket"])
def test_tables_that_the_job_cannot_write_are_refused(lake: Path, kind: str) -> None:
    one = Writing(lake).open(columns(id=T.LongType(), at=T.TimestampType()))
    transform: Transform[Any, Any] = DayTransform() if kind == "day" else BucketTransform(4)
    with one.handle.update_spec() as spec:
        spec.add_field("at", transform)
    with pytest.raises(ConfigurationError, match=f"partitioned by {kind}"):
        one.table.detail()


def test_rows_without_the_partition_column(lake: Path) -> None:
    """The table refuses rows that lack the column it is partitioned by."""
    one = Writing(lake).open(columns(id=T.LongType(), part=T.StringType()), ("part",))
    with pytest.raises(ConfigurationError, match=r"the rows lack part, which partitions shop\.orders"):
        one.table.destination(arrow_types(columns(id=T.LongType())))


def test_column_that_cannot_partition(lake: Path) -> None:
    """The job refuses a column that cannot partition a table before it makes the table."""
    one = Writing(lake)
    with pytest.raises(ConfigurationError, match="partition-by names at, which is timestamp"):
        one.open(columns(id=T.LongType(), at=T.TimestampType()), ("at",))
    assert one.table.detail() is None


def test_an_old_format_is_refused(lake: Path) -> None:
    one = Writing(lake)
    for look in (lambda: one.table.create(COLUMNS, properties={"format-version": "1"}), one.table.detail):
        with pytest.raises(ConfigurationError, match="format version 1"):
            look()


def test_required_column_is_not_nullable(lake: Path) -> None:
    """A required column is not nullable in the table's detail."""
    one = Writing(lake).open(columns(T.StructField("id", T.LongType(), False), name=T.StringType()))
    detail = one.table.detail()
    assert detail is not None
    assert [field.nullable for field in detail.columns] == [False, True]
    one.write((1, "a"), end=28)
    assert one.rows() == [(1, "a")]


def test_many_rounds_leave_few_files_of_metadata(lake: Path) -> None:
    one = Writing(lake).open(
        properties={"write.metadata.previous-versions-max": "3", "commit.manifest.min-count-to-merge": "4"}
    )
    for number in range(12):
        one.write((number, "x"), end=28 * (number + 1))
    folder = lake / "shop" / "orders" / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) <= 5
    snapshot = one.handle.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(one.handle.io)) <= 4
    assert len(one.rows()) == 12


def test_commit_with_a_lost_answer(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run knows a commit whose answer was lost, and its rows are there once."""
    one = Writing(lake).open()
    real = Table._do_commit

    def lose(table: Table, updates: Any, requirements: Any) -> None:
        real(table, updates, requirements)
        raise OSError("no answer")

    monkeypatch.setattr(Table, "_do_commit", lose)
    with pytest.raises(LogError, match="no answer"):
        one.write((1, "a"), end=28)
    monkeypatch.undo()
    again = Writing(lake).open()
    assert (again.state.sequence, dict(again.state.ends)) == (1, {KEY: 28})
    assert again.rows() == [(1, "a")]


def test_refused_commit_that_is_there(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the catalog repeated a request whose answer was lost: commits without a record are tried again."""
    one = Writing(lake).open()
    files = DataFiles(one.table.destination(arrow_types(COLUMNS)))
    files.add(pa.table({"id": [1], "name": ["a"]}))
    real = Table._do_commit

    def refuse(table: Table, updates: Any, requirements: Any) -> None:
        monkeypatch.undo()
        real(table, updates, requirements)
        raise CommitFailedException("main is elsewhere")

    monkeypatch.setattr(Table, "_do_commit", refuse)
    one.table.commit(files.close())
    assert one.rows() == [(1, "a")]


def test_cherry_picked_rows(lake: Path) -> None:
    """They are in the table again, and no snapshot says so. Those that others wrote and published are no matter."""
    one = Writing(lake).open()
    for number in range(2):
        one.write((number, "a"), end=28 * (number + 1))
    handle = one.handle
    handle.append(pa.table({"id": [9], "name": ["b"]}))
    first, second, of_others = one.handle.snapshots()
    picked = {"source-snapshot-id": str(of_others.snapshot_id)}
    one.handle.append(pa.table({"id": [9], "name": ["b"]}), snapshot_properties=picked)
    assert dict(Writing(lake).open().state.ends) == {KEY: 56}
    one.handle.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    picked = {"source-snapshot-id": str(second.snapshot_id)}
    one.handle.append(pa.table({"id": [1], "name": ["a"]}), snapshot_properties=picked)
    state = Writing(lake).open().state
    assert (state.record, state.is_whole, state.is_copy, state.sequence) == (None, False, True, 2)


def test_a_text_that_pyiceberg_cannot_cut_is_written(lake: Path) -> None:
    one = Writing(lake).open()
    text = "x" * 15 + "\ud7ff" + "y"
    one.write((1, text), end=28)
    assert one.rows() == [(1, text)]
    assert one.handle.scan(row_filter="id = 1").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("kind", "uri"),
    [
        ("sql", "postgresql://me:s3cr3t@127.0.0.1:1/x"),
        ("", "mysql+pymysql://me:s3cr3t@127.0.0.1:1/x"),
        ("rest", "http://127.0.0.1:1/x?token=s3cr3t"),
        ("rest", "http://127.0.0.1:1/?token=s3cr3t"),
    ],
)
def test_a_secret_of_the_catalog_is_in_no_error(kind: str, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind:
        monkeypatch.setenv("PYICEBERG_CATALOG__HIDDEN__TYPE", kind)
    monkeypatch.setenv("PYICEBERG_CATALOG__HIDDEN__URI", uri)
    table = IcebergTable(None, "hidden.shop.orders", None, {})
    with pytest.raises(LogError) as caught:
        table.detail()
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="pyiceberg does not know nothing"):
        IcebergTable(None, "nothing.shop.orders", None, {}).detail()


def test_secrets_in_catalog_properties() -> None:
    """Errors hide a catalog's credentials, headers, and passwords, not its address or region."""
    properties = {
        "type": "rest",
        "uri": "https://catalog/x",
        "credential": "me:s3cr3t",
        "header.Authorization": "Bearer t0ken\n",
        "s3.region": "eu-west-1",
        "auth": {"type": "basic", "basic": {"username": "me", "password": "p4ss"}},
    }
    texts = {"Bearer s3cr3t", "Bearer t0ken\\n", "p4ss", "rest at https://catalog/x in eu-west-1"}
    shown = {scrub(one, secrets_in(properties)) for one in texts}
    assert shown == {"Bearer ***", "***\\n", "***", "rest at https://catalog/x in eu-west-1"}


def test_the_record_says_when_it_was_written(lake: Path) -> None:
    state = Writing(lake).open().write(end=28)
    assert state.written is not None
    assert abs(datetime.now(UTC) - state.written) < timedelta(minutes=1)
