"""What `tubeclient.records` makes of records, beside Spark's from_json and from_csv: each difference is on purpose."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.tubeclient.records.reading import LOCAL, MOMENT, plain, same
from tubeclient.records import Decoder, RecordSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,18)": pa.decimal128(38, 18),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": MOMENT,
    "timestamp_ntz": LOCAL,
    "array<int>": pa.list_(pa.int32()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "struct<x:tinyint>": pa.struct([("x", pa.int8())]),
}
PLAIN = [name for name in TYPES if "<" not in name and name != "binary"]
BAD = "bad"

NUMBERS = (
    *("0", "-0", "1", "-1", "127", "128", "200", "-129", "9223372036854775807", "9223372036854775808", "1.0", "1.5"),
    *("1e2", "1E-2", "0.1", "1.005", "2.675", "99999999.99", "99999999.995", "123456789.12", "0.000000000000000001"),
    *("12345678901234567890.123456789012345678", "1e400", "-1e400", "1e39", "3.4028235677973366e38", "1e-400", "1e-60"),
    *("1704164645", "1704164645000", "253402300800", "-62135596801", "19724", "20240102"),
)
WORDS = ("NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF", "+INF", "inf", "nan", "true", "TRUE", "false", "t")
TIMES = (
    *("2024-01-02", "2024-1-2", "2024-01", "2024", "2024-02-30", "2024-01-02 03:04", "2024-01-02 03:04:05"),
    *("2024-01-02T03:04:05", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05.123456789", "2024-01-02T03:04:05+08:00"),
    *("2024-01-02T03:04:05+08", "2024-01-02T03:04:05+0800", "2024-01-02 03:04:05 Asia/Shanghai", "2024-01-02 24:00:00"),
    *("2024-01-02 03:04:05 PST", "2024-01-02T03:04:05+19:00", "2024-01-02 3:4:5", "2024-01-02 03", "0000-01-01"),
    *(
        "9999-12-31",
        "10000-01-01",
        "12024-01-02",
        "0000-00-00",
        "2024-03-31 02:30:00",
        "2024-10-27 02:30:00",
        "03:04:05",
    ),
)
TEXTS = ("", " ", "x", " 1 ", "1,234.5", "AA==", "A", "é😀", "null", "\u0661")


def json_values() -> Iterator[str]:
    """JSON values."""
    yield from (
        *NUMBERS,
        *WORDS,
        "null",
        "[]",
        "[1]",
        "[ 1,null]",
        '[1,"x"]',
        "{}",
        '{"x":1}',
        '{"x":200}',
        '{ "x" : 1.10 }',
    )
    yield from (
        '{"x":1,"x":2}',
        '{"x":"1"}',
        '{"y":{"x":1}}',
        '"\\u0000"',
        '"\\ud83d"',
        '"\\ud83d\\ude00"',
        "'x'",
        "01",
        "+1",
    )
    yield from (f'"{text}"' for text in (*NUMBERS, *WORDS, *TIMES, *TEXTS))
    chance = random.Random(7)
    for _ in range(60):
        yield f"{chance.choice(['', '-'])}{chance.randrange(10 ** chance.randrange(1, 22))}.{chance.randrange(10**6)}"
        yield f"{chance.randrange(10**6)}e{chance.randrange(-30, 30)}"
        day = f"{chance.randrange(1, 9999):04}-{chance.randrange(1, 13)}-{chance.randrange(1, 32)}"
        yield f'"{day} {chance.randrange(24)}:00:00"'


def csv_values() -> Iterator[str]:
    """Values of csv, with what is around them."""
    yield from (*NUMBERS, *WORDS, *TIMES, *(text for text in TEXTS if "," not in text))
    yield from (
        '"x"',
        '""',
        '"a""b"',
        '"a\\"b"',
        '"a\\\\"',
        "a\\b",
        '5" pipe',
        '"x"y',
        '"x" ',
        ' "x"',
        '"x',
        '"1,5"',
        '"\n"',
        "x\ny",
    )


RECORDS = (
    *('{"a":1}', '{"a":1}\n', '\ufeff{"a":1}', " ", "", "5", "[]", '[{"a":1}]', '[{"a":1},{"a":2}]', "null", "x", "{"),
    *('{"a":1', '{"a":1} x', '{"a":1}{"a":2}', '{"a":1},', '{"A":1}', '{"a":1,"a":2}', '{"a":1,"b":01}', '{"a":1,}'),
    *('{"b":{"b":1,"b":2},"a":1}', '{"a":1,"b":"\\ud83d"}', '{"a":1,"b":"\\x"}', '{"a":1,"b":tru}', "{'a':1}", "{a:1}"),
    *(
        '{"b":' + "[" * 499 + "]" * 499 + ',"a":1}',
        '{"b":' + "[" * 501 + "]" * 501 + ',"a":1}',
        '{"a":1,"b":' + "1" * 1_001 + "}",
    ),
    *('{"a":1,"b":"\t"}', '{"a":1/**/}', '{"a":1,"b":NaN}', '{"a":1}\0', '{"a":1,"\\u0061":2}'),
)

Difference = tuple[str, str, Any, Any]
"""The type, the text, Spark's value, ours."""
Kinds = dict[str, Callable[[str, str, Any, Any], bool]]
"""What differs on purpose, and whether a difference is of that kind. The first kind that fits counts."""

FLOATS = ("float", "double")
TIMED = ("date", "timestamp", "timestamp_ntz")

OF_TIMES: Kinds = {
    "seconds are of the years 1 to 9999": lambda kind, text, spark, own: (
        kind == "timestamp" and own == BAD and text.startswith('{"a":') and text[5] != '"'
    ),
    "years are 1 to 9999, with four digits": lambda kind, text, spark, own: (
        kind in TIMED and own == BAD and re.search(r"\b0000-|\d{5,}(?!\d)", text) is not None
    ),
    "zones have their names of the IANA": lambda kind, text, spark, own: (
        kind == "timestamp" and own == BAD and "PST" in text
    ),
    "nothing is taken from today's date": lambda kind, text, spark, own: (
        kind == "timestamp" and own == BAD and "03:04:05" in text and "-" not in text
    ),
    "a date has its month and day, a time its minute": lambda kind, text, spark, own: (
        kind in TIMED and own == BAD and re.search(r"\b(2024|2024-01|2024-01-02 03)\b(?![-:])", text) is not None
    ),
    "a DATE has no time, and is no number of days": lambda kind, text, spark, own: kind == "date" and own == BAD,
}
OF_NUMBERS: Kinds = {
    "a number beyond its type is bad": lambda kind, text, spark, own: (
        kind in ("tinyint", "struct<x:tinyint>", *FLOATS) and own == BAD and spark != BAD and "\u0661" not in text
    ),
    "more words are infinite, in csv in any case": lambda kind, text, spark, own: kind in FLOATS and spark == BAD,
    "digits are ASCII, and commas are none": lambda kind, text, spark, own: (
        own == BAD and ("\u0661" in text or ("decimal" in kind and "," in text))
    ),
}
IN_JSON: Kinds = {
    "a name twice is bad": lambda kind, text, spark, own: own == BAD and '"x":1,"x":2' in text,
    "half a surrogate pair is bad": lambda kind, text, spark, own: own == BAD and '\\ud83d"' in text,
    "minus zero keeps its sign": lambda kind, text, spark, own: kind in FLOATS and str(own) == "-0.0",
    "a STRING is what was written": lambda kind, text, spark, own: kind == "string" and own == text[5:-1],
    "BINARY is base64 and no more": lambda kind, text, spark, own: kind == "binary" and own == BAD,
    **OF_NUMBERS,
    **OF_TIMES,
}
IN_CSV: Kinds = {
    "an empty record is bad": lambda kind, text, spark, own: text == "" and own == BAD,
    "spaces around numbers are none of them": lambda kind, text, spark, own: text == " 1 " and spark == BAD,
    "a doubled quote is a quote": lambda kind, text, spark, own: own == 'a"b' and '""' in text,
    "a value in quotes ends with its quote": lambda kind, text, spark, own: (
        own == BAD and text in ('"x"y', '"x" ', '"x')
    ),
    "a backslash escapes no quote": lambda kind, text, spark, own: text[0] == '"' and "\\" in text,
    "a record has one line": lambda kind, text, spark, own: own == BAD and "\n" in text,
    **OF_NUMBERS,
    **{name: is_it for name, is_it in OF_TIMES.items() if not name.startswith("seconds")},
}
OF_RECORDS: Kinds = {
    "a byte order mark is shed": lambda kind, text, spark, own: own == 1 and text.startswith("\ufeff"),
    "nothing follows the object": lambda kind, text, spark, own: (
        own == BAD and "}" in text and text[7:8] in list(" {,\0")
    ),
    "a name twice is bad": lambda kind, text, spark, own: own == BAD and spark == 2,
    "JSON has at most 500 levels": lambda kind, text, spark, own: own == BAD and "[" * 501 in text,
}


def ours(kind: str, types: list[str], texts: dict[str, list[str]]) -> dict[str, list[Any]]:
    found = {}
    for name in types:
        spec = RecordSpec(kind=kind, schema=pa.schema([("a", TYPES[name])]))
        decoded = Decoder(spec).decode(pa.array([text.encode() for text in texts[name]], pa.binary()))
        found[name] = [BAD if one is None else one["a"] for one in plain(decoded.records)]
    return found


def sparks(spark: SparkSession, function: str, types: list[str], texts: dict[str, list[str]]) -> dict[str, list[Any]]:
    from pyspark.sql import functions as F

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    read = getattr(F, function)
    columns = [
        read(
            F.col(f"t{at}"),
            F.lit(f"a {name}, bad STRING") if function == "from_csv" else f"a {name}, bad STRING",
            options,
        ).alias(name)
        for at, name in enumerate(types)
    ]
    table = pa.table({f"t{at}": texts[name] for at, name in enumerate(types)})
    rows = spark.createDataFrame(table).coalesce(1).select(columns).toArrow()
    return {
        name: [
            BAD if one is None or one["bad"] is not None else one["a"]
            for one in plain(rows.column(name).combine_chunks())
        ]
        for name in types
    }


def differences(
    types: list[str], texts: dict[str, list[str]], spark: dict[str, list[Any]], own: dict[str, list[Any]]
) -> Any:
    for name in types:
        for text, other, value in zip(texts[name], spark[name], own[name], strict=True):
            if not same(other, value):
                yield name, text, other, value


def check(found: Iterator[Difference], kinds: Kinds) -> None:
    """Each difference is of a kind, and there is one of each kind."""
    seen = defaultdict(list)
    for one in found:
        kind = next((kind for kind, is_it in kinds.items() if is_it(*one)), None)
        seen[kind].append(one)
    assert seen.pop(None, []) == []
    assert set(kinds) == set(seen)


def test_values_of_json(delta_spark: SparkSession) -> None:
    texts = {name: [f'{{"a":{value}}}' for value in json_values()] for name in TYPES}
    types = list(TYPES)
    found = differences(types, texts, sparks(delta_spark, "from_json", types, texts), ours("json", types, texts))
    check(found, IN_JSON)


def test_values_of_csv(delta_spark: SparkSession) -> None:
    texts = {name: list(csv_values()) for name in PLAIN}
    found = differences(PLAIN, texts, sparks(delta_spark, "from_csv", PLAIN, texts), ours("csv", PLAIN, texts))
    check(found, IN_CSV)


def test_records_of_json(delta_spark: SparkSession) -> None:
    texts = {"bigint": list(RECORDS)}
    found = differences(
        ["bigint"], texts, sparks(delta_spark, "from_json", ["bigint"], texts), ours("json", ["bigint"], texts)
    )
    check(found, OF_RECORDS)
