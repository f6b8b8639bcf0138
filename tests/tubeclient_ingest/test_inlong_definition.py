"""What became of an InLong stream's definition, and the table's property that keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from tests.tubeclient.inlong_manager import KEY, USER, field, managing, stream
from tubeclient.admin.inlong_manager import InlongManager
from tubeclient_ingest.settings.inlong_definition import PROPERTY, Change, change
from tubeclient_ingest.tables.spark_table import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def definition(*fields: tuple[str, str], **more: Any) -> str:
    written = [{"fieldName": name, "fieldType": kind} for name, kind in fields]
    return json.dumps({"dataType": "CSV", "dataSeparator": "124", **more, "fieldList": written})


ID, NAME, AT = ("id", "int"), ("name", "string"), ("at", "timestamp")


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        (definition(ID), definition(ID), {}),
        (definition(ID), definition(("id", "INTEGER"), dataSeparator="|", dataEncoding="utf-8", dataType="csv"), {}),
        (definition(ID), definition(ID, wrapType="INLONG_MSG_V1"), {}),
        (definition(ID), definition(ID, NAME, AT), {"name": "STRING", "at": "TIMESTAMP"}),
        (definition(ID, NAME, dataType="JSON"), definition(AT, NAME, ID, dataType="JSON"), {"at": "TIMESTAMP"}),
        (definition(dataType="RAW"), definition(ID, dataType="RAW"), {}),
    ],
)
def test_new_fields_and_what_means_the_same(old: str, new: str, added: dict[str, str]) -> None:
    assert change(old, new) == Change(added, None)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (definition(ID), "the field name was removed"),
        (definition(ID, ("label", "string")), "the field name was removed"),
        (definition(("id", "long"), NAME), "the field id was INT and is BIGINT"),
        (definition(NAME, ID), "the order of fields changed: name, id"),
        (definition(AT, ID, NAME), "the order of fields changed: at, id, name"),
        (definition(ID, NAME, dataSeparator="44"), "dataSeparator was '|' and is ','"),
        (definition(ID, NAME, dataEscapeChar="\\"), r"dataEscapeChar was None and is '\\'"),
        (definition(ID, NAME, dataEncoding="GBK"), "dataEncoding was 'UTF-8' and is 'GBK'"),
        (definition(ID, NAME, dataType="KV"), "dataType was csv and is kv"),
        (
            definition(ID, NAME, dataType="JCE"),
            "the new definition has dataType 'JCE'; set format json, csv or kv if records have it",
        ),
        (definition(), "the new definition has no fields in fieldList"),
        (definition(ID, NAME, dataType="RAW"), "dataType was csv and is raw"),
    ],
)
def test_all_else_is_told(new: str, said: str) -> None:
    assert change(definition(ID, NAME), new).other == said


def test_another_format_of_times_is_told() -> None:
    old, new = (
        json.dumps({"dataType": "json", "fieldList": [field("at", "timestamp", fieldFormat=text)]})
        for text in ("SQL", "yyyyMMdd")
    )
    assert change(old, new).other == "timestampFormat was None and is 'yyyyMMdd'"
    first = json.dumps({"dataType": "json", "fieldList": [field("id", "int")]})
    both = json.dumps({"dataType": "json", "fieldList": [field("id", "int"), *json.loads(new)["fieldList"]]})
    assert change(first, both) == Change({"at": "TIMESTAMP"}, None)


def test_several_differences_are_one_line() -> None:
    found = change(definition(ID, NAME), definition(("id", "long"), AT, dataEncoding="GBK"))
    assert found.added == {"at": "TIMESTAMP"}
    assert found.other == (
        "dataEncoding was 'UTF-8' and is 'GBK'; the field name was removed; the field id was INT and is BIGINT"
    )


@pytest.mark.spark
def test_definition_survives_in_a_property(tmp_path: Path, delta_spark: SparkSession) -> None:
    """A table's property returns the definition from Manager unchanged."""
    # Spark hides values of properties in which it sees a secret.
    fields = [field("password", "string"), field("it's `\\", "int"), field("ts\u65f6", "timestamp")]
    with managing({"clicks": stream("clicks", *fields, dataEscapeChar="\\")}) as asked:
        [text] = InlongManager(asked.address, USER, key=KEY).streams("shop").values()
    table = SparkTable(delta_spark, f"{tmp_path}/clicks")
    table.create(StructType([StructField("id", LongType())]), properties={PROPERTY: text})
    detail = table.detail()
    assert detail is not None
    assert detail.properties[PROPERTY] == text
