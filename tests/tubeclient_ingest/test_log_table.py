"""Tables whose files tasks write: which tables those are, and what a commit is refused for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_source.offsets.offsets import Offsets
from tests.offsets_store.s3_server import BUCKET, s3_process
from tubeclient_ingest.commits.beginning import TableChanged
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.tables.data_files import DataFile, DataFiles
from tubeclient_ingest.tables.delta_log import DeltaLog
from tubeclient_ingest.tables.log_table import LogTable
from tubeclient_ingest.tables.spark_errors import LogError
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tables.table_detail import TableDetail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.merge

SCHEMA = pa.schema([("id", pa.int64())])


def record(number: int, group: str = "g") -> SinkRecord:
    return SinkRecord(group, f"run{number}", Offsets({}), number)


@pytest.mark.parametrize(
    ("files", "has_files"),
    [
        ([], False),
        (["_delta_log/.00000000000000000000.json.1.tmp"], False),
        (["_delta_log/00000000000000000000.json"], True),
        (["_delta_log/00000000000000000010.checkpoint.parquet"], True),
        (["_delta_log/.tmp", "part-0.parquet"], True),
        (["of_others.csv"], True),
    ],
)
def test_folder_that_a_table_may_be_made_in(tmp_path: Path, files: list[str], has_files: bool) -> None:
    """Only a log without a commit may be there, whose maker died."""
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert DeltaLog(str(tmp_path), "").has_files() is has_files
    assert not DeltaLog(str(tmp_path / "missing"), "").has_files()


class _Table(SparkTable):
    """Without Spark: of one column, as it was made."""

    def __init__(self, uri: str, options: dict[str, str] | None = None) -> None:
        self.sql = self.where = uri
        self.is_named = False
        self.log = None
        self.asked = 0
        self._uri, self._options = uri, options

    def detail(self) -> TableDetail | None:
        from pyspark.sql.types import LongType, StructField, StructType

        self.asked += 1
        found = DeltaTable(self._uri, storage_options=self._options).metadata()
        return TableDetail(str(found.id), self._uri, StructType([StructField("id", LongType())]), found.configuration)


def made(uri: str, options: dict[str, str] | None = None, **how: Any) -> LogTable:
    DeltaTable.create(uri, SCHEMA, storage_options=options, **how)
    return opened(uri, options)


def opened(uri: str, options: dict[str, str] | None = None) -> LogTable:
    table = _Table(uri, options)
    detail = table.detail()
    assert detail is not None
    found = LogTable.of(table, detail, options or {})
    assert isinstance(found, LogTable), found
    return found


def files_of(table: LogTable, *ids: int) -> list[DataFile]:
    files = DataFiles(table.destination(SCHEMA))
    files.add(pa.table({"id": ids}, schema=SCHEMA))
    return files.close()


def ids(uri: str, options: dict[str, str] | None = None) -> list[int]:
    found: list[int] = DeltaTable(uri, storage_options=options).to_pyarrow_table().column("id").to_pylist()
    return sorted(found)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.mark.parametrize(("properties", "at"), [({}, [10, 20]), ({"delta.checkpointInterval": "7"}, [6, 13, 20])])
def test_checkpoint_interval(tmp_path: Path, properties: dict[str, str], at: list[int]) -> None:
    """Each look and commit reads what came since the last one."""
    table = made(str(tmp_path), configuration=properties)
    for number in range(1, 24):
        table.commit(files_of(table, number), record(number))
        table.history(1)
    checkpoints = sorted((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    assert [int(one.name[:20]) for one in checkpoints] == at
    again = opened(str(tmp_path))
    assert again.last_number(record(0).transaction_id, again._detail) == 23
    assert ids(str(tmp_path)) == list(range(1, 24))


def test_contents_of_a_commit(uri: str) -> None:
    """A commit has its files, its record, and its transaction."""
    table = made(uri)
    assert [one.version for one in table.history(5)] == [0]
    table.commit(files_of(table, 1, 2), record(7))
    assert ids(uri) == [1, 2]
    newest, first = table.history(5)
    assert (newest.version, newest.operation, newest.record, first.record) == (1, "WRITE", record(7), None)
    detail = table.detail()
    assert detail is not None
    assert table.last_number(record(1).transaction_id, detail) == 7
    assert table.query("SELECT \"id\" FROM log WHERE \"id\" > {} OR '{}' = ''", 1, "it's") == {"id": [2]}


def two_of_which_one_wrote(uri: str) -> tuple[LogTable, LogTable]:
    """Two that looked at the same version; the first has made its commit since."""
    first = made(uri)
    second = opened(uri)
    for one in (first, second):
        one.history(1)
    first.commit(files_of(first, 1), record(1))
    return first, second


def test_two_commits_on_the_same_version(uri: str) -> None:
    """Of two runs that read the same version, only one commits."""
    _, second = two_of_which_one_wrote(uri)
    with pytest.raises(LogError, match=r"delta-rs cannot use .*Concurrent transaction") as caught:
        second.commit(files_of(second, 2), record(1))
    assert caught.value.is_conflict
    with pytest.raises(LogError):  # also a higher number: it has not seen the other
        second.commit(files_of(second, 2), record(2))
    second.history(1)
    with pytest.raises(LogError, match="has a commit with number 1"):  # and an equal number, though it has seen it
        second.commit(files_of(second, 2), record(1))
    with pytest.raises(LogError, match="was read again"):  # and what was made of an older look
        second.commit(files_of(second, 2), replace(record(2), based_on=0))
    assert ids(uri) == [1]
    second.commit(files_of(second, 2), replace(record(2), based_on=1))
    assert ids(uri) == [1, 2]


def test_another_groups_commit_is_no_matter(uri: str) -> None:
    _, second = two_of_which_one_wrote(uri)
    second.commit(files_of(second, 2), record(1, "h"))
    assert ids(uri) == [1, 2]


def test_metadata_changed_since_the_choice(uri: str) -> None:
    """A commit conflicts if the table's metadata changes, and then the run reports the change."""
    table = made(uri)
    table.history(1)
    DeltaTable(uri).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(LogError, match="Metadata changed") as caught:
        table.commit(files_of(table, 1), record(1))
    assert caught.value.is_conflict
    table.history(1)
    with pytest.raises(TableChanged):
        table.commit(files_of(table, 1), record(1))
    assert ids(uri) == []


@pytest.mark.parametrize("commits", [1, 30])
def test_a_table_that_another_one_replaced_is_seen(uri: str, commits: int) -> None:
    table = made(uri)
    for number in range(3):
        table.history(1)
        table.commit(files_of(table, number), record(number + 1))
    table.history(20)
    shutil.rmtree(uri)
    other = made(uri)
    for number in range(commits):
        other.history(1)
        other.commit(files_of(other, 100 + number), record(number + 1, "h"))
    found = table.history(5)
    assert found[0].version == commits
    assert all(one.record is None or one.record.consumer_group == "h" for one in found)
    with pytest.raises(TableChanged):
        table.commit(files_of(table, 5), record(9))
    shutil.rmtree(uri)
    assert (table.history(5), table.detail()) == ([], None)


def test_history_without_its_beginning(uri: str) -> None:
    """A history whose first entries are gone has the entries that remain."""
    table = made(uri)
    for number in range(3):
        table.history(1)
        table.commit(files_of(table, number), record(number + 1))
    DeltaTable(uri).create_checkpoint()
    for version in range(3):
        (Path(uri) / "_delta_log" / f"{version:020}.json").unlink()
    for one in (table, opened(uri)):
        assert [found.version for found in one.history(20)] == [3]


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    with s3_process() as options:
        yield options


def test_a_table_in_a_store(store: dict[str, str]) -> None:
    place = f"s3://{BUCKET}/table"
    table = made(place, store)
    other = opened(place, store)
    table.commit(files_of(table, 1, 2), record(1))
    assert [one.record for one in table.history(5)] == [record(1), None]
    assert ids(place, store) == [1, 2]
    assert DeltaLog(place, "", store).has_files()
    assert not DeltaLog(f"{place}_of_nobody", "", store).has_files()
    with pytest.raises(LogError, match="Concurrent transaction"):
        other.commit(files_of(other, 3), record(1))
    gone = {**store, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "retry_timeout": "1s"}
    detail = _Table(place, store).detail()
    assert detail is not None
    reason = LogTable.of(_Table(place, store), detail, gone)
    assert str(reason).startswith(f"delta-rs cannot read it: delta-rs cannot use {place}: ")
    assert store["AWS_SECRET_ACCESS_KEY"] not in str(reason)


@pytest.mark.spark
def test_which_tables_spark_has_to_write(delta_spark: SparkSession, tmp_path: Path) -> None:
    """And files appended to the others are read as Spark's own."""

    def chosen(columns: str, more: str = "", then: str = "") -> LogTable | str:
        place = f"delta.`{tmp_path / str(len(list(tmp_path.iterdir())))}`"
        delta_spark.sql(f"CREATE TABLE {place} ({columns}) USING DELTA {more}").collect()
        if then:
            delta_spark.sql(then.format(place)).collect()
        table = SparkTable(delta_spark, place.removeprefix("delta.").strip("`"))
        detail = table.detail()
        assert detail is not None
        return LogTable.of(table, detail, {})

    refused = {
        chosen("id BIGINT", then="ALTER TABLE {} ADD CONSTRAINT few CHECK (id < 10)"),
        chosen("id BIGINT, n BIGINT GENERATED ALWAYS AS (id + 1)"),
        chosen("id BIGINT, n BIGINT GENERATED ALWAYS AS IDENTITY"),
        chosen("id BIGINT, n BIGINT DEFAULT 1", "TBLPROPERTIES ('delta.feature.allowColumnDefaults'='supported')"),
        chosen("id BIGINT, name VARCHAR(3)"),
        chosen("id BIGINT, at TIMESTAMP", "PARTITIONED BY (at)"),
        chosen("id BIGINT", "CLUSTER BY (id)"),
        *(chosen("id BIGINT", f"TBLPROPERTIES ({given})") for given in _OTHERS),
    }
    assert refused == {
        "it has the property delta.constraints.few",
        "its column n has delta.generationExpression",
        "its column n has delta.identity.allowExplicitInsert",
        "its column n has CURRENT_DEFAULT",
        "its column name has __CHAR_VARCHAR_TYPE_STRING",
        "it is partitioned by at, which is timestamp",
        "it has the feature clustering",
        *(f"it has the property {name}" for name in _OTHERS.values()),
    }
    for feature in ("allowColumnDefaults", "identityColumns", "vacuumProtocolCheck"):
        unused = chosen("id BIGINT", f"TBLPROPERTIES ('delta.feature.{feature}'='supported')")
        assert unused == f"it has the feature {feature}"
    before_features = "TBLPROPERTIES ('delta.minReaderVersion'='2', 'delta.minWriterVersion'='6')"
    assert chosen("id BIGINT", before_features) == "its protocol is 2, 6"
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.enableChangeDataFeed'='true')"
    old = "TBLPROPERTIES ('delta.minReaderVersion'='1', 'delta.minWriterVersion'='4')"
    assert (
        chosen("id BIGINT, n BIGINT GENERATED ALWAYS AS (id + 1)", old) == "its column n has delta.generationExpression"
    )
    for more in ("", old, "PARTITIONED BY (day)", properties, "TBLPROPERTIES ('delta.appendOnly'='true')"):
        table = chosen("id BIGINT, at TIMESTAMP_NTZ, day DATE", more)
        assert isinstance(table, LogTable), (more, table)
        rows = pa.table({"id": [1, 2], "day": [date(2026, 1, 1), None]})
        files = DataFiles(table.destination(rows.schema))
        files.add(rows)
        table.commit(files.close(), record(1))
        if "Vectors" in more:
            # What Spark takes out stays out, also where delta-rs has written the table's state anew.
            delta_spark.sql(f"DELETE FROM {table.sql} WHERE id = 1").collect()
            folder = Path(table.uri) / "_delta_log"
            DeltaTable(table.uri).create_checkpoint()
            for entry in sorted(folder.glob("*.json"))[:-1]:
                entry.unlink()
            delta_spark.sql("CLEAR CACHE").collect()
            assert [row.id for row in delta_spark.table(table.sql).collect()] == [2]
        assert delta_spark.table(table.sql).where("day IS NULL AND id > 1").count() == 1


_OTHERS = {
    "'delta.columnMapping.mode'='name'": "delta.columnMapping.maxColumnId",
    "'delta.enableRowTracking'='true'": "delta.enableRowTracking",
    "'delta.enableInCommitTimestamps'='true'": "delta.enableInCommitTimestamps",
    "'delta.dataSkippingStatsColumns'='id'": "delta.dataSkippingStatsColumns",
    "'delta.enableTypeWidening'='true'": "delta.enableTypeWidening",
    "'delta.checkpointPolicy'='v2'": "delta.checkpointPolicy",
}
"""Properties, and for which of a table's Spark has to write it."""
