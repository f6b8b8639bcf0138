"""The target's own rules: what Delta would end a write at is a bad record, with the column or the constraint."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError

from embedded_tubemq.storage.store import NewMessage
from spark_source.session_confs import SESSION_ZONE
from spark_source.typed.format_settings import FormatSettings
from spark_source.typed.record_format import pinned, target_rows
from tests.spark_source.typed.rows import source_rows
from tests.tubeclient_ingest.bench import Bench
from tubeclient.conditions import error_text
from tubeclient_ingest.job import IngestFailed
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tables.target_columns import TargetRules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOOD = {"id": 1, "name": "ab", "code": "7", "s": {"a": 1, "v": "x"}, "l": ["a"], "m": {"a": 1}, "day": "2026-01-01"}
NUM = "the target's constraint num refuses it"
CASES: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"y": 2026}, None),
    ({"name": None, "l": [None, "a"], "m": None}, None),
    ({"id": None}, "id is NOT NULL in the target but has no value"),
    ({"name": "geheim"}, "the value of name is too long for varchar(5)"),
    ({"name": "ab      "}, "the value of name is too long for varchar(5)"),
    ({"code": "-7"}, NUM),
    ({"code": None}, NUM),
    ({"code": "geheim"}, NUM),
    ({"code": "7.5"}, None),
    ({"s": None}, "s.a is NOT NULL in the target but has no value"),
    ({"s": {"v": "x"}}, "s.a is NOT NULL in the target but has no value"),
]
TABLE = (
    "id BIGINT NOT NULL, name VARCHAR(5), code STRING, s STRUCT<a: INT NOT NULL, v: STRING>, l ARRAY<STRING>,"
    " m MAP<STRING, INT>, day DATE, y INT GENERATED ALWAYS AS (YEAR(day))"
)
ROWS = "id BIGINT, name STRING, code STRING, s STRUCT<a: INT, v: STRING>, l ARRAY<STRING>, m MAP<STRING, INT>, day DATE"


def judged(spark: SparkSession, path: Path, schema: str, records: list[dict[str, Any]]) -> list[str | None]:
    """What each record's reason is; asserts that Delta refuses those that have one, and no others."""
    with pinned(spark):  # as a job's query
        return _judged(spark, path, schema, records)


def _judged(spark: SparkSession, path: Path, schema: str, records: list[dict[str, Any]]) -> list[str | None]:
    bodies = [json.dumps(record).encode() for record in records]
    parsed = FormatSettings(format="json", schema=schema).record_format().parse(source_rows(spark, bodies)).persist()
    kind = target_rows(parsed).schema
    written = {bytes(row.value): row.record for row in parsed.collect()}
    table = SparkTable(spark, str(path)).detail()
    assert table is not None
    rules = TargetRules.of(table, kind, spark)
    found = {bytes(row.value): row for row in rules.checked(parsed).collect()}
    for body, row in found.items():
        assert (row.record is None) == (row.badReason is not None)
        taken = _takes(path, spark.createDataFrame([written[body]], kind).coalesce(1))
        assert taken == (row.badReason is None), body
    return [found[body].badReason for body in bodies]


def _takes(path: Path, rows: DataFrame) -> bool:
    try:
        rows.write.format("delta").mode("append").option("mergeSchema", True).save(str(path))
    except Py4JJavaError:
        return False
    return True


@pytest.mark.merge
@pytest.mark.spark
def test_reasons_match_deltas_refusals(delta_spark: SparkSession, tmp_path: Path) -> None:
    """A record has a reason if Delta refuses it, and only then."""
    delta_spark.sql(f"CREATE TABLE delta.`{tmp_path}` ({TABLE}) USING delta")
    delta_spark.sql(f"ALTER TABLE delta.`{tmp_path}` ADD CONSTRAINT num CHECK (CAST(code AS INT) > 0)")
    for schema in (ROWS, f"{ROWS}, y INT"):
        cases = [(more, error_text) for more, error_text in CASES if ("y" in more) == ("y INT" in schema)]
        found = judged(delta_spark, tmp_path, schema, [{**GOOD, **more} for more, _ in cases])
        assert found == [error_text for _, error_text in cases]


@pytest.mark.spark
def test_constraint_on_an_identity_column(delta_spark: SparkSession, tmp_path: Path) -> None:
    """Delta alone judges a constraint on numbers that it generates."""
    columns = "rid BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT"
    delta_spark.sql(f"CREATE TABLE delta.`{tmp_path}` ({columns}) USING delta")
    delta_spark.sql(f"ALTER TABLE delta.`{tmp_path}` ADD CONSTRAINT r CHECK (rid > 0)")
    delta_spark.sql(f"ALTER TABLE delta.`{tmp_path}` ADD CONSTRAINT i CHECK (id > 0)")
    found = judged(delta_spark, tmp_path, "id BIGINT", [{"id": 1}, {"id": -1}])
    assert found == [None, "the target's constraint i refuses it"]


@pytest.mark.spark
def test_values_that_cannot_name_a_partition(delta_spark: SparkSession, tmp_path: Path) -> None:
    """Delta takes an empty text for none, and fails at a folder's name that is too long."""
    where = f"delta.`{tmp_path}`"
    delta_spark.sql(f"CREATE TABLE {where} (id INT, `ü:` STRING) USING delta PARTITIONED BY (`ü:`)")
    kept = [None, " ", ".", "..", "a%2Fb", "a\n", "a/b\\c", "'\"", "x" * 249, "ü" * 124, "=" * 83, "#\x1f\x7f[]{^" * 9]
    refused = ["", "__HIVE_DEFAULT_PARTITION__", "a\0", "geheim" * 50, "x" * 250, "中" * 90, "ü" * 125, "=" * 84]
    reason = "the target is partitioned by ü:, and this value cannot be in a folder's name: it is"
    records = [{"id": number, "ü:": text} for number, text in enumerate([*kept, *refused])]
    schema = "id INT, `ü:` STRING"
    bodies = [json.dumps(record).encode() for record in records]
    with pinned(delta_spark):
        parsed = FormatSettings(format="json", schema=schema).record_format().parse(source_rows(delta_spark, bodies))
        table = SparkTable(delta_spark, str(tmp_path)).detail()
        assert table is not None
        checked = TargetRules.of(table, parsed.select("record.*").schema, delta_spark).checked(parsed).persist()
        target_rows(checked).select("id", "ü:").coalesce(1).writeTo(where).append()
        reasons = {row.badReason for row in checked.where("badReason IS NOT NULL").collect()}
        assert {text.rpartition(" empty")[0] for text in reasons} == {reason}
        # Delta fails at those that are too long, or takes others for null.
        for text in refused:
            frame = delta_spark.createDataFrame([(-1, text)], schema).coalesce(1)
            with suppress(Py4JJavaError):
                frame.writeTo(where).append()
    found = delta_spark.table(where).select("id", "ü:").collect()
    assert sorted((row.id, row["ü:"]) for row in found if row.id >= 0) == list(enumerate(kept))
    assert {row["ü:"] for row in found if row.id < 0} <= {None}


@pytest.mark.spark
def test_ambiguous_time_in_a_partition(delta_spark: SparkSession, tmp_path: Path) -> None:
    """A partition's time is bad if the clock of the time zone shows it twice."""
    delta_spark.sql(f"CREATE TABLE delta.`{tmp_path}` (id INT, at TIMESTAMP) USING delta PARTITIONED BY (at)")
    times = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]
    bodies = [json.dumps({"id": number, "at": text}).encode() for number, text in enumerate(times)]
    schema = "id INT, at TIMESTAMP"
    with pinned(delta_spark, {SESSION_ZONE: "Europe/Berlin"}):
        parsed = FormatSettings(format="json", schema=schema).record_format().parse(source_rows(delta_spark, bodies))
        table = SparkTable(delta_spark, str(tmp_path)).detail()
        assert table is not None
        checked = TargetRules.of(table, parsed.select("record.*").schema, delta_spark).checked(parsed).persist()
        target_rows(checked).select("id", "at").writeTo(f"delta.`{tmp_path}`").append()
        [bad] = checked.where("badReason IS NOT NULL").collect()
    assert (bytes(bad.value), bad.badReason.endswith("the clock of the time zone shows it twice")) == (bodies[1], True)
    found = delta_spark.table(f"delta.`{tmp_path}`").selectExpr("id", "unix_seconds(at)").collect()
    assert sorted(map(tuple, found)) == [(0, 1792888200), (2, 1792895400)]


@pytest.mark.spark
def test_bad_partition_values(bench: Bench) -> None:
    """Values that cannot name a partition are bad records, and no row comes twice."""
    where, bad = bench.settings.target, str(bench.folder / "bad")
    how: dict[str, Any] = {"format": "csv", "schema": "id STRING, v STRING", "partition_by": ("v",)}
    keyed = {**how, "key": ("id", "v"), "order_by": "arrival"}
    bodies = [b"1,a", b'2,""', b"3," + "中".encode() * 90, b"4,x\0", b"5,"]
    for _ in range(2):
        bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])
        [one] = bench.run(**keyed, bad_records=bad)
        assert (one.rows, one.bad_rows) == (1, 4)
    assert DeltaTable(where).to_pyarrow_table(columns=["id", "v"]).to_pylist() == [{"id": "1", "v": "a"}]
    bench.tube.load("clicks", [NewMessage(0, b"6," + b"geheim" * 50)])
    with pytest.raises(IngestFailed, match=r"bad record in topic clicks, .* is partitioned by v, and") as ended:
        bench.run(**keyed)
    assert "geheim" not in str(ended.value)


@pytest.mark.spark
def test_raw_rows_under_a_constraint(bench: Bench) -> None:
    """Raw rows have the source's columns and reasons with and without a constraint."""
    options, where = bench.settings.source_options, bench.settings.target
    bench.send(4)
    bench.run(source_options={**options, "payload": "inlong", "badMessages": "keep"})
    bench.spark.sql(f"ALTER TABLE delta.`{where}` ADD CONSTRAINT o CHECK (value IS NULL OR value <> X'39')")
    bench.sent = 2
    bench.send(2)
    bench.run(source_options={**options, "payload": "inlong", "badMessages": "keep"})
    rows = DeltaTable(where).to_pyarrow_table().to_pylist()
    assert len(rows) == 6
    assert all(row["badReason"] for row in rows)


@pytest.mark.spark
def test_target_with_partitions_and_rules(bench: Bench) -> None:
    """As docs/ingest.md has it."""
    columns = "id BIGINT NOT NULL, at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE))"
    bench.spark.sql(f"CREATE TABLE delta.`{bench.settings.target}` ({columns}) USING delta PARTITIONED BY (day)")
    bodies = [json.dumps({"id": n, "at": f"2026-11-2{n}T10:00:00"}).encode() for n in (1, 2)]
    bench.tube.load("clicks", [NewMessage(0, body) for body in (*bodies, b"{}")])
    bad = bench.folder / "bad"
    bench.run(format="json", schema="id BIGINT, at TIMESTAMP", evolve=True, bad_records=str(bad))
    found = {row["id"]: str(row["day"]) for row in DeltaTable(bench.settings.target).to_pyarrow_table().to_pylist()}
    assert found == {1: "2026-11-21", 2: "2026-11-22"}
    [row] = DeltaTable(str(bad)).to_pyarrow_table().to_pylist()
    assert row["reason"] == "id is NOT NULL in the target but has no value"


@pytest.mark.spark
def test_record_refused_by_a_constraint(bench: Bench) -> None:
    """A record that a constraint refuses is a bad record, or ends the job with its place."""
    bench.send(10)
    bench.run()
    where = bench.settings.target
    bench.spark.sql(
        f"ALTER TABLE delta.`{where}` ADD CONSTRAINT lucky CHECK (CAST(CAST(value AS STRING) AS INT) <> 13)"
    )
    bench.send(10)
    with pytest.raises(IngestFailed) as ended:
        bench.run()
    cause = error_text(ended.value)
    assert re.match(
        r"\[BAD_RECORD\] bad record in topic clicks, partition 1:clicks:10000, offset \d+, message id ", cause
    )
    assert ": the target's constraint lucky refuses it. Nothing of its round was written." in cause
    bad = bench.folder / "bad"
    bench.run(bad_records=str(bad))
    [row] = DeltaTable(str(bad)).to_pyarrow_table().to_pylist()
    assert (row["value"], row["reason"]) == (b"13", "the target's constraint lucky refuses it")
    assert bench.repeated_or_missing() == {13: 0}
