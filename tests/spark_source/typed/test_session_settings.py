"""What a record means depends on the job's options, whatever the session's settings are."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from spark_source.session_confs import session_confs
from spark_source.typed.format_settings import FormatSettings
from spark_source.typed.record_format import MEANING, as_records_mean
from tests.spark_source.typed.rows import source_rows
from tests.spark_source.typed.spark_settings import entries_of_parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLAIN: Final = "d INT, f FLOAT, h DECIMAL(6,2), i STRING, j DATE, k TIMESTAMP"
NESTED: Final = f"{PLAIN}, n ARRAY<DATE>, o STRUCT<x: INT, Y: TIMESTAMP>, p VARIANT"
VALUES: Final = {
    "d": "5 1.5",
    "f": "1.5 Infinity",
    "h": "99999.99 1.005",
    "i": "null 1.10",
    "j": "2024-01-02 2026-02-30 0000-00-00 20240102 02/01/2024 2024-01-02T03:04:05",
    "k": "2024-01-02 2026-02-30 2024-01-02T03:04:05Z 1700000000 2024-01-02T03:04:05.1234567",
}
PAIRS: Final = [(name, text) for name, texts in VALUES.items() for text in texts.split()]
JSON: Final = (
    *(f'{{"{name}":"{text}"}}' for name, text in PAIRS),
    *(f'{{"{name}":{text}}}' for name, text in PAIRS),
    *(f'{{"{name}":""}}' for name in VALUES),
    *('{"d":1,"d":2}', '{"j":"x","d":1}', '{"D":1,"K":"x"}', '{"i":{"a": 1.0}}', '{"i":1.10,"k":1700000000}', "{}"),
    *('{"n":["2026-02-30"]}', '{"n":["2024-01-02",""]}', '{"o":{"x":1,"y":2,"Y":"2024-01-02"}}', '{"p":"\\ud83d"}'),
    *('{"o":{"x":""},"d":1}', '{"p":{"z":1,"z":2}}', '{"d":1,"o":{"x":"a"}}'),
)
CSV: Final = tuple(",".join(text if name == one else "" for name in VALUES) for one, text in PAIRS)
KV: Final = (*(f"{name}={text}" for name, text in PAIRS), "d=1&d=2", "d=1&x", "i=\u9a6c")
FORMS: Final[tuple[tuple[Any, str, dict[str, Any], tuple[str, ...]], ...]] = (
    ("json", NESTED, {}, JSON),
    ("csv", PLAIN, {"time_zone": "Asia/Shanghai"}, CSV),
    ("kv", PLAIN, {"separator": "&", "encoding": "GBK", "options": {"dateFormat": "dd/MM/yyyy"}}, KV),
)

OTHERS: Final = {
    "LEGACY_TIME_PARSER_POLICY": "LEGACY",
    "TIMESTAMP_TYPE": "TIMESTAMP_NTZ",
    "SESSION_LOCAL_TIMEZONE": "Asia/Tokyo",
    "COLUMN_NAME_OF_CORRUPT_RECORD": "wrong",
    "MAP_KEY_DEDUP_POLICY": "LAST_WIN",
    "STORE_ASSIGNMENT_POLICY": "LEGACY",
    "BINARY_OUTPUT_STYLE": "HEX",
    "CODEGEN_FACTORY_MODE": "NO_CODEGEN",
    "LEGACY_CSV_ENABLE_DATE_TIME_PARSING_FALLBACK": "true",
    "LEGACY_JSON_ENABLE_DATE_TIME_PARSING_FALLBACK": "true",
    "LEGACY_NULL_IN_EMPTY_LIST_BEHAVIOR": "true",
}
"""Another value than the default of what is neither true nor false."""
NO_MEANING: Final = {
    *("CSV_INPUT_BUFFER_SIZE", "CODEGEN_LOG_LEVEL"),
    *("DEFAULT_COLUMN_ALLOWED_PROVIDERS", "ALLOWED_DYNAMIC_UDT_CLASSES"),
}


def meanings(spark: SparkSession) -> dict[tuple[str, bytes], str]:
    """What each record becomes, in each format, by the session's settings of now."""
    found: dict[tuple[str, bytes], str] = {}
    for kind, ddl, more, texts in FORMS:
        settings = FormatSettings(format=kind, schema=ddl)
        form = replace(settings.record_format(), **more)
        values = [text.encode(form.encoding) for text in texts] + [b"\xff"]
        with as_records_mean(spark):
            rows = form.parse(source_rows(spark, values)).select("value", "record", "badReason").collect()
        found |= {(kind, bytes(row.value)): str(row.record or row.badReason) for row in rows}
    return found


def other_values(spark: SparkSession) -> dict[str, str]:
    """Another value than the default for each setting that Spark's parsing classes read."""
    assert spark._jvm is not None
    conf = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$").getField("MODULE$").get(None)
    found = {}
    for name in entries_of_parsing() - NO_MEANING:
        entry = getattr(conf, name)()
        default = entry.defaultValueString()
        if default in ("true", "false"):
            found[entry.key()] = "false" if default == "true" else "true"
        elif name in OTHERS:
            found[entry.key()] = OTHERS[name]
        else:
            assert re.match(r"-?[\d.]", default), f"{name} is {default}; what else may it be?"
    return {name: value for name, value in found.items() if spark.conf.isModifiable(name)}


def test_no_setting_that_spark_reads_when_it_parses_changes_what_records_mean(delta_spark: SparkSession) -> None:
    others = other_values(delta_spark)
    assert others.keys() >= MEANING.keys()
    before = meanings(delta_spark)
    with session_confs(delta_spark, others):
        after = meanings(delta_spark)
    assert {record: (text, after[record]) for record, text in before.items() if text != after[record]} == {}
