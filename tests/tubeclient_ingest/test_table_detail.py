"""What a table is, by its log and for its rows, is what Spark says of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_source.options.source_options import ALL_ATTRIBUTES, RowOptions
from spark_source.read.schema import spark_schema
from spark_source.typed.format_settings import FormatSettings
from tubeclient_ingest.log_table import LogTable
from tubeclient_ingest.table_detail import detail_in_log, has_local_files
from tubeclient_ingest.target import SparkTable
from tubeclient_ingest.target_columns import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = (
    "id BIGINT NOT NULL, a DECIMAL(38,9), b STRUCT<`x.y`: ARRAY<MAP<STRING, DATE>>, z: BINARY>, `c\u00fc` TIMESTAMP,"
    " d TIMESTAMP_NTZ, e SMALLINT, f TINYINT, g FLOAT, day DATE, kind STRING COMMENT 'what'"
)


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
def test_the_log_says_what_spark_says_or_leaves_it_to_spark(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, rule: str | None
) -> None:
    place = tmp_path / "a table \u00fc"
    delta_spark.sql(f"CREATE TABLE delta.`{place}` ({COLUMNS}) USING delta {more}")
    for text in (str(place), f"file:{place}", f"{place}/"):
        table = SparkTable(delta_spark, text)
        found = table.detail()
        monkeypatch.setattr("tubeclient_ingest.target.detail_in_log", lambda _: None)
        assert found == table.detail()
        monkeypatch.undo()
    assert (detail_in_log(str(place)) is None) == (rule is not None)


def test_without_a_table_in_the_folder_spark_says_what_there_is(delta_spark: SparkSession, tmp_path: Path) -> None:
    assert SparkTable(delta_spark, str(tmp_path / "none")).detail() is None
    assert detail_in_log(str(tmp_path)) is None


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


def test_a_path_that_may_mean_another_folder_to_spark_is_left_to_it(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta_spark.range(1).write.format("delta").save(str(tmp_path / "a"))
    asked: list[str] = []
    monkeypatch.setattr("tubeclient_ingest.target.detail_in_log", lambda folder: asked.append(folder))
    for place in (f"{tmp_path}/b/../a", f"/{tmp_path}/a", f"{tmp_path}/a"):
        with suppress(Exception):
            SparkTable(delta_spark, place).detail()
    elsewhere = delta_spark.newSession()
    elsewhere.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    assert not has_local_files(elsewhere)
    assert asked == [f"{tmp_path}/a"]


def test_a_path_with_wildcards_has_its_own_transactions(delta_spark: SparkSession, tmp_path: Path) -> None:
    numbers = {"b{1}": 5, "b1": 7}
    for name, number in numbers.items():
        writer = delta_spark.range(1).write.format("delta").option("txnAppId", "a").option("txnVersion", number)
        writer.save(str(tmp_path / name))
    for name, number in numbers.items():
        table = SparkTable(delta_spark, str(tmp_path / name))
        assert (detail := table.detail()) is not None
        assert table.last_number("a", detail) == number


@pytest.mark.parametrize("kind", ["raw", "json", "csv", "kv", "canal-json", "debezium-json"])
def test_the_columns_of_a_target_are_those_of_sparks_rows(delta_spark: SparkSession, kind: str) -> None:
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
