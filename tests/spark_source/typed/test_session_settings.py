"""What a record means depends on the job's options, whatever the session's settings are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from spark_source.session_confs import SESSION_ZONE, session_confs
from spark_source.typed.format_settings import FormatSettings
from spark_source.typed.record_format import MEANING, as_records_mean
from tests.spark_source.typed.rows import source_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLAIN: Final = "d INT, f FLOAT, h DECIMAL(6,2), i STRING, j DATE, k TIMESTAMP"
VALUES: Final = {
    "d": "5 1.5",
    "f": "1.5 Infinity",
    "h": "99999.99 1.005",
    "i": "null 1.10",
    "j": "2024-01-02 2026-02-30 20240102 02/01/2024 2024-01-02T03:04:05",
    "k": "2024-01-02 2026-02-30 2024-01-02T03:04:05Z 1700000000 2024-01-02T03:04:05.1234567",
}
PAIRS: Final = [(name, text) for name, texts in VALUES.items() for text in texts.split()]
JSON: Final = (
    *(f'{{"{name}":"{text}"}}' for name, text in PAIRS),
    *(f'{{"{name}":{text}}}' for name, text in PAIRS),
    *(f'{{"{name}":""}}' for name in VALUES),
    *('{"d":1,"d":2}', '{"j":"x","d":1}', '{"D":1,"K":"x"}', '{"i":{"a": 1.0}}', '{"n":["2024-01-02",""]}'),
    *('{"o":{"x":1,"y":2,"Y":"2024-01-02"}}', '{"p":"\\ud83d"}', '{"p":{"z":1,"z":2}}', '{"d":1,"o":{"x":"a"}}'),
)
CSV: Final = tuple(",".join(text if name == one else "" for name in VALUES) for one, text in PAIRS)
KV: Final = (*(f"{name}={text}" for name, text in PAIRS), "d=1&d=2", "i=\u9a6c")
FORMS: Final[tuple[tuple[Any, str, dict[str, Any], tuple[str, ...]], ...]] = (
    ("json", f"{PLAIN}, n ARRAY<DATE>, o STRUCT<x: INT, Y: TIMESTAMP>, p VARIANT", {}, JSON),
    ("csv", PLAIN, {"time_zone": "Asia/Shanghai"}, CSV),
    ("kv", PLAIN, {"separator": "&", "encoding": "GBK", "options": {"dateFormat": "dd/MM/yyyy"}}, KV),
)
OTHERS: Final = {
    **{name: "false" if value == "true" else "true" for name, value in MEANING.items()},
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.columnNameOfCorruptRecord": "wrong",
    SESSION_ZONE: "Asia/Tokyo",
}


def meanings(spark: SparkSession) -> dict[tuple[str, bytes], str]:
    """What each record becomes, in each format, by the session's settings of now."""
    found: dict[tuple[str, bytes], str] = {}
    for kind, ddl, more, texts in FORMS:
        form = replace(FormatSettings(format=kind, schema=ddl).record_format(), **more)
        values = [text.encode(form.encoding) for text in texts] + [b"\xff"]
        with as_records_mean(spark):
            rows = form.parse(source_rows(spark, values)).select("value", "record", "badReason").collect()
        found |= {(kind, bytes(row.value)): str(row.record or row.badReason) for row in rows}
    return found


def test_no_setting_of_the_session_changes_what_records_mean(delta_spark: SparkSession) -> None:
    before = meanings(delta_spark)
    with session_confs(delta_spark, OTHERS):
        after = meanings(delta_spark)
    assert {record: (text, after[record]) for record, text in before.items() if text != after[record]} == {}
