"""Protobuf records become columns by the descriptor file that format options name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_tubeclient import typed
from spark_source.typed.format_settings import FormatSettings
from tests.spark_source.typed.rows import source_rows
from tests.tubeclient.records.protos import OLD, SHOP, descriptor, shop
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def click(folder: Path) -> dict[str, str]:
    """The format options of shop.Click."""
    file = folder / "shop.desc"
    file.write_bytes(descriptor(SHOP, OLD))
    return {"descFilePath": str(file), "messageName": "shop.Click"}


@pytest.mark.parametrize(
    ("options", "more", "said"),
    [
        (
            {"messageName": ""},
            {},
            "format protobuf needs the format options descFilePath, a file of protoc .* messageN",
        ),
        ({"descFilePath": ""}, {}, "needs the format options descFilePath"),
        ({"descFilePath": "/nowhere"}, {}, "^descFilePath names the file /nowhere, which cannot be read: No such file"),
        (
            {"messageName": "Clack"},
            {},
            "^descFilePath is .*shop.desc: .* has no message 'Clack'; it has shop.Click",
        ),
        ({"mode": "FAILFAST"}, {}, "mode is not a format option of protobuf; use one of descFilePath, messageName"),
        ({}, {"encoding": "GBK"}, "encoding is for text formats, but the format is protobuf"),
        ({}, {"separator": "|"}, "separator is for csv and kv, but the format is protobuf"),
        ({}, {"key": ("id",)}, "key is given, but nothing says which row of a key is the newest"),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, options: dict[str, str], more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        FormatSettings(format="protobuf", format_options={**click(tmp_path), **options}, **more)
    assert "\n" not in str(caught.value)


@pytest.mark.spark
def test_protobuf(delta_spark: SparkSession, tmp_path: Path) -> None:
    options = click(tmp_path)
    good = shop(id=5, name="x", points=[{"x": 1}], at={"seconds": 1}, value={"number_value": 1.5}, tags={"a": 1})
    rows = source_rows(delta_spark, [good, b"\x08", b"", None], bad={3: "torn"})
    all_columns, some = typed(rows, "protobuf", options=options), typed(
        rows, "protobuf", "id INT NOT NULL, points ARRAY<STRUCT<x INT>>, value VARIANT, user STRING", options=options
    )  # fmt: skip
    # What tasks need has gone with the plan.
    Path(options["descFilePath"]).unlink()
    [row] = all_columns.where("id = 5").collect()
    assert (row.name, row.points, row.tags, row.value, row.color) == ("x", [(1, 0)], {"a": 1}, "1.5", "NONE")
    found = some.selectExpr("id", "points", "to_json(value)", "user", "badReason").orderBy("tubemq.messageId").collect()
    assert [tuple(row) for row in found] == [
        (5, [(1,)], "1.5", None, None),
        (None, None, None, None, "the bytes are not a message shop.Click"),
        (0, [], None, None, None),
        (None, None, None, None, "torn"),
    ]
    options = click(tmp_path)
    for name, schema, said in (
        ("shop.Click", "ident INT", "column ident is not a field of message shop.Click"),
        ("shop.Click", "id STRING", "column id is string, but field shop.Click.id is int64; make it BIGINT"),
        ("shop.Tree", None, "shop.Tree contains itself"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            typed(rows, "protobuf", schema, options={**options, "messageName": name})
