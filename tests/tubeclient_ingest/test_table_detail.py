"""What a table is, by its log and for its rows, is what Spark says of it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from spark_source.options.source_options import ALL_ATTRIBUTES, RowOptions
from spark_source.read.schema import spark_schema
from spark_source.typed.format_settings import FormatSettings
from tubeclient_ingest.tables.delta_log import DeltaLog
from tubeclient_ingest.tables.log_table import LogTable
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tables.table_detail import create_in_log, detail_in_log, has_local_files
from tubeclient_ingest.tables.target_columns import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = (
    "id BIGINT NOT NULL, a DECIMAL(38,9), b STRUCT<`x.y`: ARRAY<MAP<STRING, DATE>>, z: BINARY>, `c\u00fc` TIMESTAMP,"
    " d TIMESTAMP_NTZ, e SMALLINT, f TINYINT, g FLOAT, day DATE, kind STRING COMMENT 'what'"
)

PLAIN = COLUMNS.replace("`x.y`", "x").replace(" d TIMESTAMP_NTZ,", "").replace(" COMMENT 'what'", "")


def of(ddl: str) -> StructType:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ("", None),
        ("PARTITIONED BY (day, kind)", None),
        ("TBLPROPERTIES ('delta.appendOnly' = 'true', 'tubeclient.key' = 'id')", None),
        ("CLUSTER BY (id)", "spark"),
        ("TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "spark"),
        ("TBLPROPERTIES ('delta.enableRowTracking' = 'true')", "spark"),
        ("TBLPROPERTIES ('delta.constraints.c' = 'id > 0')", "spark"),
    ],
)
def test_log_and_spark_agree(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, rule: str | None
) -> None:
    """The log gives the same detail of a table as Spark, or leaves the table to Spark."""
    place = tmp_path / "a table \u00fc"
    delta_spark.sql(f"CREATE TABLE delta.`{place}` ({COLUMNS}) USING delta {more}")
    for text in (str(place), f"file:{place}", f"{place}/"):
        table = SparkTable(delta_spark, text)
        found = table.detail()
        monkeypatch.setattr("tubeclient_ingest.tables.spark_table.detail_in_log", lambda _: None)
        assert found == table.detail()
        monkeypatch.undo()
    assert (detail_in_log(DeltaLog(str(place), "")) is None) == (rule is not None)


@pytest.mark.parametrize(
    ("columns", "partition_by", "properties"),
    [
        (
            COLUMNS.replace("`x.y`", "x").replace(" d TIMESTAMP_NTZ,", "").replace(" COMMENT 'what'", ""),
            ("kind", "day"),
            {},
        ),
        ("id BIGINT", (), {"my.own": "yes", "tubeclient.consumerGroup.g": '{"undone": [], "tableIds": []}'}),
    ],
)
def test_table_made_without_spark(
    delta_spark: SparkSession, tmp_path: Path, columns: str, partition_by: tuple[str, ...], properties: dict[str, str]
) -> None:
    """A table that the job makes without Spark equals the one that Spark makes."""
    inner = StructType([StructField("w", ArrayType(IntegerType(), False), False)])
    schema = of(columns).add("within", inner)
    place, other = tmp_path / "a table \u00fc" / "within", tmp_path / "of spark"
    log = DeltaLog(str(place), "")
    (place / "_delta_log").mkdir(parents=True)  # of a job that died before the first commit
    (place / "_delta_log" / f".{0:020}.json.1.tmp").write_text("")
    assert create_in_log(log, schema, partition_by, properties)
    assert not create_in_log(log, schema, partition_by, properties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tubeclient_ingest.tables.spark_table.create_in_log", lambda *_: False)
        SparkTable(delta_spark, str(other)).create(schema, partition_by, (), properties)

    def made(folder: Path) -> dict[str, object]:
        lines = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        actions = {name: value for line in lines for name, value in json.loads(line).items()}
        metadata = {name: actions["metaData"][name] for name in ("format", "configuration", "partitionColumns")}
        protocol = {name: value for name, value in actions["protocol"].items() if value}
        return {**metadata, "protocol": protocol, "schema": json.loads(actions["metaData"]["schemaString"])}

    assert made(place) == made(other)
    first = SparkTable(delta_spark, str(place)).history(1)[0]
    assert (first.version, first.operation) == (0, "CREATE TABLE")
    values = "(id) VALUES (1)" if columns == "id BIGINT" else "(id, day, kind) VALUES (1, DATE'2026-01-01', 'a')"
    for table in (place, other):
        delta_spark.sql(f"INSERT INTO delta.`{table}` {values}").collect()
    assert delta_spark.table(f"delta.`{place}`").collect() == delta_spark.table(f"delta.`{other}`").collect()


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ("id TIMESTAMP_NTZ", {}),
        ("id BIGINT, v VARIANT", {}),
        ("id BIGINT, s STRUCT<a: INT, ID: INT>", {}),
        ("`a b` BIGINT", {}),
        ("id BIGINT COMMENT 'what'", {}),
        ("id BIGINT", {"partition_by": ("id",)}),
        ("id BIGINT, at TIMESTAMP", {"partition_by": ("at",)}),
        ("id BIGINT, day DATE", {"partition_by": ("DAY",)}),
        ("id BIGINT", {"properties": {"Delta.appendOnly": "true"}}),
        ("id BIGINT", {"properties": {"owner": "me"}}),
        ("id BIGINT", {"folder": "with_files"}),
    ],
)
def test_what_spark_has_to_make(tmp_path: Path, columns: str, more: dict[str, Any]) -> None:
    (tmp_path / "with_files").mkdir()
    (tmp_path / "with_files" / "one.parquet").touch()
    given = {"folder": "t", "partition_by": (), "properties": {}, **more}
    schema, folder = of(columns), str(tmp_path / given["folder"])
    assert not create_in_log(DeltaLog(folder, ""), schema, given["partition_by"], given["properties"])
    assert not Path(folder, "_delta_log").exists()


def test_what_the_session_gives_to_new_tables_they_get(delta_spark: SparkSession, tmp_path: Path) -> None:
    own = delta_spark.newSession()
    own.conf.set("spark.databricks.delta.properties.defaults.appendOnly", "true")
    table = SparkTable(own, str(tmp_path / "t"))
    table.create(of("id BIGINT"))
    assert (detail := table.detail()) is not None
    assert detail.properties == {"delta.appendOnly": "true"}


def test_folder_without_a_table(delta_spark: SparkSession, tmp_path: Path) -> None:
    """The log and Spark give no detail of a folder without a table."""
    assert SparkTable(delta_spark, str(tmp_path / "none")).detail() is None
    assert detail_in_log(DeltaLog(str(tmp_path), "")) is None


@pytest.mark.parametrize("name", ["b#c", "b?c=d", "b%20c", "b[1]", "b:c", "b\\c"])
def test_a_path_with_odd_characters_is_no_other_table(delta_spark: SparkSession, tmp_path: Path, name: str) -> None:
    places = [tmp_path / one for one in ("b", "b c", name)]
    for place in places:
        delta_spark.sql(f"CREATE TABLE delta.`{place}` (id INT) USING delta")
    ids = [row.id for place in places for row in delta_spark.sql(f"DESCRIBE DETAIL delta.`{place}`").collect()]
    details = [SparkTable(delta_spark, str(place)).detail() for place in places]
    assert [one and one.table_id for one in details] == ids
    logs = [one and LogTable.of(SparkTable(delta_spark, one.location), one, {}) for one in details]
    assert [one.uri for one in logs if isinstance(one, LogTable)] == [
        str(place) for place in places if place.name != name or not {*"%[\\"} & {*name}
    ]


def test_ambiguous_paths_are_left_to_spark(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job reads no log at a path that may mean another folder to Spark."""
    delta_spark.range(1).write.format("delta").save(str(tmp_path / "a"))
    asked: list[str] = []
    monkeypatch.setattr("tubeclient_ingest.tables.spark_table.detail_in_log", lambda log: asked.append(log.uri))
    for place in (f"{tmp_path}/b/../a", f"/{tmp_path}/a", f"{tmp_path}/a"):
        with suppress(Exception):
            SparkTable(delta_spark, place).detail()
    elsewhere = delta_spark.newSession()
    elsewhere.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    assert not has_local_files(elsewhere)
    assert asked == [f"{tmp_path}/a"]


def test_path_with_wildcards(delta_spark: SparkSession, tmp_path: Path) -> None:
    """Tables whose paths differ by characters of a wildcard have their own transactions."""
    numbers = {"b{1}": 5, "b1": 7}
    for name, number in numbers.items():
        writer = delta_spark.range(1).write.format("delta").option("txnAppId", "a").option("txnVersion", number)
        writer.save(str(tmp_path / name))
    for name, number in numbers.items():
        table = SparkTable(delta_spark, str(tmp_path / name))
        assert (detail := table.detail()) is not None
        assert table.last_number("a", detail) == number


@pytest.mark.parametrize("kind", ["raw", "json", "csv", "kv", "canal-json", "debezium-json"])
def test_target_columns_match_spark_rows(delta_spark: SparkSession, kind: str) -> None:
    """The columns of a new target equal those of the rows that Spark parses."""
    plain = "id BIGINT NOT NULL, name STRING, at TIMESTAMP, n DECIMAL(20,3)"
    schema = {"raw": None, "json": f"{plain}, v VARIANT, s STRUCT<a: ARRAY<INT>, m: MAP<STRING, DATE>>"}.get(
        kind, plain
    )
    form = FormatSettings(format=None if kind == "raw" else kind, schema=schema).record_format()
    source = spark_schema(RowOptions(payload="inlong", columns=ALL_ATTRIBUTES))
    made = columns_of(form, source, delta_spark)
    of_spark = form.only_good(delta_spark.createDataFrame([], source)).schema
    assert [(one.name, one.dataType.simpleString()) for one in made] == [
        (one.name, one.dataType.simpleString()) for one in of_spark
    ]
    assert [one.name for one in made if not one.nullable] == (["id"] if kind in ("json", "csv", "kv") else [])
