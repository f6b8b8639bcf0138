"""Records of each format become columns, or have a reason why not."""

from __future__ import annotations

import contextlib
import io
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import IntegerType, StructType

from spark_source.typed.format_settings import ENCODINGS
from spark_source.typed.record_format import RecordFormat, pinned, or_fail, target_rows
from tests.spark_source.typed.rows import GOOD, parsed, source_rows
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLICKS = "id BIGINT NOT NULL, name STRING, at DATE"


def form(kind: Any, ddl: str = CLICKS, **more: Any) -> RecordFormat:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return RecordFormat(kind, schema, **more)


@pytest.mark.spark
def test_json(delta_spark: SparkSession) -> None:
    json = form("json", CLICKS + ", many ARRAY<INT>, one STRUCT<a: INT>")
    whole = b'{"id":1,"name":"x","at":"2024-01-02","many":[1],"one":{"a":2},"more":3}'
    assert parsed(json, {
        whole + b"\n": (1, "x", "2024-01-02", [1], {"a": 2}),
        b'{"id":1,"name":{"b":1}}': (1, '{"b":1}', None, None, None),
        b'{"id":"a"}': "the value of id is not of type bigint",
        b'{"id":99999999999999999999}': "the value of id is not of type bigint",
        b'{"id":1,"at":"2024-13-01"}': "the value of at is not of type date",
        b'{"id":1,"many":[1,"a"]}': "the value of many is not of type array<int>",
        b'{"id":1,"one":{"a":"x"}}': "a value is not of its type",
        b'{"name":"x"}': "id is NOT NULL and has no value",
        b'{"id":1': "the text is not JSON",
        b"  ": "the text is not JSON",
        b"": "the record is empty",
        b"5": "the text is not a JSON object",
        b'[{"id":1},{"id":2}]': "the text is not a JSON object",
        # Spark takes no notice of what follows the first object.
        b'{"id":1} x': "something follows the JSON object",
        b'{"id":1}{"id":2}': "something follows the JSON object",
        b'{"id":1},{"id":2}': "something follows the JSON object",
        b'{"id":1}]} x': "something follows the JSON object",
        # Nor of members that close what the text is put into.
        b'{"id":1}],"z":[{"id":2}': "something follows the JSON object",
        b'{"id":1} ] , "list":[{"id":2}': "something follows the JSON object",
        b'],"list":[{"id":2}': "the text is not JSON",
        b'null],"list":[{"id":2}': "the text is not a JSON object",
        b'{"id":1},null],"list":[{"id":2}': "something follows the JSON object",
        b'{"id":1}],"__tubeclient_list":[{"id":2}': "something follows the JSON object",
        b'{"z":[{"a":1}],"id":1,"p":NaN}': (1, None, None, None, None),
        b'{"id":1,"name":"\xff"}': "the bytes are not text in UTF-8",
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_csv_with_quotes(delta_spark: SparkSession) -> None:
    assert parsed(form("csv", separator="|"), {
        b"1|x|2024-01-02": (1, "x", "2024-01-02"),
        b"1||": (1, None, None),
        b'1|"a|b"|': (1, "a|b", None),
        b"1|x|\r\n": (1, "x", None),
        b'1|"x\ny"|': (1, "x\ny", None),
        b"1|x|\n2|y|": "the text has several lines",
        b'1|5" pipe|\n2|y|': "the text has several lines",
        b'1|a"b|\n2|c"d|': "the text has several lines",
        b'1|5" pipe|': (1, '5" pipe', None),
        b'1|x|"': "the number of fields is not 3",
        b'1|"x"|\r2|y|': "the text has several lines",
        b"\0001|x|": "the value of id is not of type bigint",
        b"a|x|": "the value of id is not of type bigint",
        b"1|x|y": "the value of at is not of type date",
        b"1|x": "the number of fields is not 3",
        b"1|x||": "the number of fields is not 3",
        b"|x|": "id is NOT NULL and has no value",
        b"": "the record is empty",
        b"1|\xff|": "the bytes are not text in UTF-8",
    }) == GOOD  # fmt: skip
    renamed = form("csv", "_corrupt_record STRING, b INT", options={"quote": "'", "nullValue": "-"})
    assert parsed(renamed, {b"'x,y',-": ("x,y", None)}) == GOOD


@pytest.mark.spark
def test_csv_keeps_each_character(delta_spark: SparkSession) -> None:
    """Java's $ is also before a last U+2028, and Spark's csv without quotes has U+0000 for them."""
    pair, none = "a STRING, b STRING", {"quote": ""}
    for csv in (form("csv", pair, separator="|"), form("csv", pair, separator="|", options=none)):
        assert parsed(csv, {
            **{f"1|x{ends}{last}".encode(): ("1", f"x{ends}{last}") for ends in "\r\n" for last in "\u2028\u0085"},
            "1|x\u2028".encode(): ("1", "x\u2028"),
        }) == GOOD  # fmt: skip
    whole = ("\0", "\0x\0"), ("\0\0x", "\0\\"), ('"\0', '"x"'), ("\0\0", None)
    assert parsed(form("csv", pair, separator="|", options=none), {
        **{f"{a}|{b or ''}".encode(): (a, b) for a, b in whole},
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_csv_with_escapes(delta_spark: SparkSession) -> None:
    csv = form("csv", separator="|", escape="\\", options={"dateFormat": "yyyyMMdd"})
    assert parsed(csv, {
        b"1|a\\|b\\\\|20240102": (1, "a|b\\", "2024-01-02"),
        b"\\1||": (1, None, None),
        b'1|"|': (1, '"', None),
        b"1|" + b"\\|" * 50_000 + b"|": (1, "|" * 50_000, None),
        b"1|x|2024": "the value of at is not of type date",
        b"1.5|x|": "the value of id is not of type bigint",
        b"1|x\\||": (1, "x|", None),
        b"1|x": "the number of fields is not 3",
        b"1|x|\\": "the text ends with the escape character \\",
        b"|x|": "id is NOT NULL and has no value",
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_a_byte_order_mark_and_line_ends_are_no_part_of_a_record(delta_spark: SparkSession) -> None:
    mark, good = b"\xef\xbb\xbf", (1, "x")
    for kind, more, text in (
        ("json", {}, b'{"a":1,"b":"x"}'),
        ("csv", {}, b"1,x"),
        ("csv", {"escape": "\\"}, b"1,x"),
        ("kv", {"separator": "&"}, b"a=1&b=x"),
    ):
        assert parsed(form(kind, "a INT, b STRING", **more), {
            **dict.fromkeys((mark + text, text + b"\n", text + b"\r\n\n"), good),
            **dict.fromkeys((mark, b"\r\n"), "the record is empty"),
        }) == GOOD  # fmt: skip
    lines = form("csv", "a INT, b STRING", separator="\n", escape="\\")
    assert parsed(lines, {mark + b"1\nx": good, b"1\n": (1, None)}) == GOOD
    escaped = form("csv", "a INT, b STRING", escape="\\")
    assert parsed(escaped, {b"1,x\\\n": (1, "x\n"), b"1,x\r\\\r\n": (1, "x\r\r")}) == GOOD


@pytest.mark.spark
def test_numbers_that_would_be_infinite_are_not_of_their_type(delta_spark: SparkSession) -> None:
    ddl = "f FLOAT, g DOUBLE"
    f, g = (f"the value of {name} is not of type {kind}" for name, kind in (("f", "float"), ("g", "double")))
    inf, most = float("inf"), 1.7976931348623157e308
    cases: dict[tuple[str, str], Any] = {
        ("1e39", ""): f,
        ("-3.4028236e38", ""): f,
        ("1" + "0" * 39, ""): f,
        ("", "1e400"): g,
        ("", "-1e400"): g,
        ("", "1.8e308"): g,
        ("3.4e38", str(most)): (3.3999999521443642e38, most),
        ("1e38", "1e39"): (9.999999680285692e37, 1e39),
        ("", "1e-400"): (None, 0.0),
    }
    words = {("Infinity", "-Infinity"): (inf, -inf), ("Infinity", "1e39"): (inf, 1e39)}
    for kind, more, between in (("csv", {}, ","), ("csv", {"escape": "\\"}, ","), ("kv", {"separator": "&"}, "&g=")):
        start = "f=" if kind == "kv" else ""
        texts = {f"{start}{a}{between}{b}".encode(): said for (a, b), said in (cases | words).items()}
        assert parsed(form(kind, ddl, **more), texts) == GOOD
    nested = form("json", ddl + ", n ARRAY<FLOAT>, o STRUCT<x: DOUBLE>")
    assert parsed(nested, {
        **{
            f'{{"f":{a or "null"},"g": {b or "null"}}}'.encode(): (*said, None, None) if len(said) == 2 else said
            for (a, b), said in (cases | words).items()
        },
        b'{"f":"Infinity","g":1e39}': (inf, 1e39, None, None),
        b'{"n":[1.5,1e39]}': "the value of n is not of type array<float>",
        b'{"n":[1.5,-Infinity,2e10]}': (None, None, [1.5, -inf, 2e10], None),
        b'{"o":{"x":1e400}}': "the value of o is not of type struct<x:double>",
        b'{"o":{"x":1e40,"y":1e400}}': (None, None, None, {"x": 1e40}),
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_of_a_key_that_is_twice_in_json_the_last_value_counts(delta_spark: SparkSession) -> None:
    json = form("json", "a TINYINT, b STRING, c STRUCT<x: TINYINT>")
    assert parsed(json, {
        b'{"a":1,"a":2,"b":"x","b":"y"}': (2, "y", None),
        b'{"a":1,"a":2,"b":"200"}': (2, "200", None),
        b'{"b":"x","b":"y","a":200}': "the value of a is not of type tinyint",
        b'{"b":"x","b":"y","a":"z"}': "the value of a is not of type tinyint",
        b'{"c":{"x":1,"x":200}}': "the value of c is not of type struct<x:tinyint>",
    }) == GOOD  # fmt: skip
    variant = form("json", "v VARIANT").parse(source_rows(delta_spark, [b'{"v":{"z":1,"z":2}}']))
    with pinned(delta_spark):
        assert [row.v for row in variant.selectExpr("to_json(record.v) AS v").collect()] == ['{"z":2}']


@pytest.mark.spark
def test_kv(delta_spark: SparkSession) -> None:
    assert parsed(form("kv", separator="&", options={"nullValue": "-"}), {
        b"id=1&name=a=b&at=2024-01-02&": (1, "a=b", "2024-01-02"),
        b"more=5&name=-&id=2": (2, None, None),
        b"id=1&name=\\": (1, "\\", None),
        b"id=1&x": "a part has no =",
        b"id=1&id=2": "a key is there twice",
        b"id=1&at=x": "the value of at is not of type date",
        b"name=x": "id is NOT NULL and has no value",
        b"": "the record is empty",
    }) == GOOD  # fmt: skip
    escaped = form("kv", "`a b` STRING, `c` DECIMAL(4,2)", separator="\t", kv_separator=":", escape="\\")
    assert parsed(escaped, {
        b"a b:x\\\ty\\:z\tc:1.25": ("x\ty:z", "1.25"),
        b"a \\b:\\\\": ("\\", None),
        b"c:1\\": "the text ends with the escape character \\",
    }) == GOOD  # fmt: skip


WILD = "the value of price is not of type decimal(10,2)"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "more", "wrap"),
    [
        ("csv", {}, "%s"),
        ("csv", {"escape": "!"}, "%s"),
        ("kv", {}, "price=%s"),
    ],
)
def test_numbers_with_wild_exponents_are_bad(
    delta_spark: SparkSession, kind: str, more: dict[str, Any], wrap: str
) -> None:
    """Java would compute all their digits: for minutes, or until memory runs out."""
    wild = ("1e999999999", "1E400000000", "1e-999999999", "-1e+0001000", "1e99999999999999999999", "1" * 999_999)
    assert parsed(form(kind, "price DECIMAL(10,2)", **more), {
        **{(wrap % text).encode(): WILD for text in wild},
        (wrap % "1.5e3").encode(): ("1500.00",),
        (wrap % "1.005").encode(): ("1.01",),
        (wrap % "-99999999.99").encode(): ("-99999999.99",),
        (wrap % "1e8").encode(): WILD,
        (wrap % "1e-999").encode(): ("0.00",),
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_json_with_wild_exponents_is_bad(delta_spark: SparkSession) -> None:
    """Where they are in a decimal; other columns may have them."""
    said = "the value of price or more is not of its type"
    json = form("json", "name STRING, rate DOUBLE, price DECIMAL(24,4), more ARRAY<STRUCT<a: DECIMAL(4,2)>>")
    # Java takes digits of any script, and a text may have each character as an escape.
    hidden = (
        r'"1\u0065400000000"',
        r'"1e\u00340\u00300\u0030"',
        r'"\u0031e\u002B40000"',
        '"1e\uff14000"',
        r'"1e\uFF140\u066000"',
    )
    wild = ("1e999999999", "1E400000000", "-1.5e-400000000", '"1e+0400000000"', "1e400000000", *hidden)
    assert parsed(json, {
        **{b'{"price":%s}' % text.encode(): said for text in wild},
        rb'{"name":"\\u0065400000000","price":1}': (r"\u0065400000000", None, "1.0000", None),
        **{b'{"more":[{"a":1},{"a":%s}]}' % text.encode(): said for text in wild},
        b'{"price":"x","name":"12e3456"}': said,
        b'{"price":"0.%s"}' % (b"1" * 1000): said,
        b'{"name":"%s"}' % (b"1" * 1000): ("1" * 1000, None, None, None),
        b'{"name":"12e3456","rate":1e-5000,"price":12345678901234567890.1234,"more":[{"a":1.5}]}':
            ("12e3456", 0.0, "12345678901234567890.1234", [{"a": Decimal("1.50")}]),
        b'{"price":1.5e3}': (None, None, "1500.0000", None),
        b'{"price":1e400000000': "the text is not JSON",
        b'{"price":1},{"price":1e400000000}': "something follows the JSON object",
    }) == GOOD  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "ddl", "text"),
    [
        ("json", "a TIMESTAMP", '{"a":"%s"}'),
        ("csv", "a TIMESTAMP", "%s"),
        ("kv", "a DATE", "a=%s"),
        ("kv", "a TIMESTAMP", "a=%s"),
    ],
)
@pytest.mark.parametrize(
    ("years", "wild", "good"),
    [
        ("yyyy", "+999999999", "2026"),
        ("yyyy", "-999999999", "2026"),
        ("y", "999999999", "2026"),
    ],
)
def test_years_beyond_all_times_are_bad(
    delta_spark: SparkSession, kind: str, ddl: str, text: str, years: str, wild: str, good: str
) -> None:
    """However they are written: a format may take years of any width."""
    options = dict.fromkeys(("dateFormat", "timestampFormat"), f"{years}-MM-dd")
    for more in ({}, {"escape": "!"}) if kind == "csv" else ({},):
        assert parsed(form(kind, ddl, options=options, **more), {
            (text % f"{wild}-12-31").encode(): f"the value of a is not of type {ddl[2:].lower()}",
            (text % f"{good}-12-31").encode(): ("2026-12-31" + " 00:00:00" * (ddl == "a TIMESTAMP"),),
        }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_seconds_beyond_all_timestamps_are_bad(delta_spark: SparkSession) -> None:
    """Such as milliseconds and microseconds, of which Spark would make some other time."""
    said = "the value of a is not of type timestamp"
    json = form("json", "a TIMESTAMP, b BIGINT", options={"timestampFormat": "yyyyMMddHHmmss"})
    expected: dict[bytes, Any] = {
        b'{"a":%d}' % seconds: said
        for seconds in (253_402_300_800, 1_700_000_000_000, 1_700_000_000_000_000, -(1 << 63), 1 << 63)
    }
    rows = source_rows(delta_spark, [b'{"a":253402300799}', b'{"a":-62135596800,"b":1}'])
    found = json.parse(rows).selectExpr("unix_seconds(record.a) AS seconds").collect()
    assert [row.seconds for row in found] == [253_402_300_799, -62_135_596_800]
    assert parsed(json, {
        **expected,
        b'{"a":"20240102030405","b":1700000000000000}': ("2024-01-02 03:04:05", 1_700_000_000_000_000),
        b'{"b":1,"z":{"a":1700000000000000}}': (None, 1),
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_years_that_only_spark_can_read_are_bad(delta_spark: SparkSession, tmp_path: Path) -> None:
    ddl = "d DATE, t TIMESTAMP, n TIMESTAMP_NTZ"
    texts = ("9999-12-31", "10000-01-01", "0000-12-31", "0001-01-01")
    days = [tuple(one if n == place else "2024-01-02" for n in range(3)) for place in range(3) for one in texts]
    for kind, more, text in (
        ("json", {}, '{"d":"%s","t":"%s","n":"%s"}'),
        ("csv", {}, "%s,%s,%s"),
        ("csv", {"escape": "!"}, "%s,%s,%s"),
        ("kv", {}, "d=%s,t=%s,n=%s"),
    ):
        rows = form(kind, ddl, **more).parse(source_rows(delta_spark, [(text % one).encode() for one in days]))
        found = [row.badReason is None for row in rows.orderBy("messageId").select("badReason").collect()]
        assert found == [not {"10000-01-01", "0000-12-31"} & set(one) for one in days], kind
    target_rows(rows).select("d").write.format("delta").save(str(tmp_path / "target"))
    assert DeltaTable(tmp_path / "target").to_pyarrow_table().num_rows == 6


@pytest.mark.spark
def test_years_within_structs_are_those_that_others_can_read(delta_spark: SparkSession, tmp_path: Path) -> None:
    json = form("json", "s STRUCT<a: STRUCT<d: DATE, t: TIMESTAMP_NTZ>>, l ARRAY<DATE>")
    good = b'{"s":{"a":{"d":"9999-12-31","t":"0001-01-01"}},"l":["10000-01-01"]}'
    rows = [
        b'{"s":{"a":{"%s":"%s"}}}' % (name, day) for name in (b"d", b"t") for day in (b"10000-01-01", b"0000-12-31")
    ]
    parsed = json.parse(source_rows(delta_spark, [good, b'{"s":null}', b'{"s":{"a":null}}', *rows]))
    found = [row.badReason for row in parsed.orderBy("messageId").select("badReason").collect()]
    assert found == [None] * 3 + [f"s.a.{name} is not of the years 1 to 9999" for name in "ddtt"]
    target_rows(parsed).select("s").write.format("delta").save(str(tmp_path / "target"))
    assert DeltaTable(tmp_path / "target").to_pyarrow_table().num_rows == 3


@pytest.mark.spark
def test_integers_that_spark_makes_others_of_are_bad_wherever_they_are(delta_spark: SparkSession) -> None:
    """Spark multiplies seconds and cuts bytes, and looks at neither."""
    inner = "STRUCT<b: TINYINT, t: TIMESTAMP, i: BIGINT>"
    ddl = f"b TINYINT, l ARRAY<TIMESTAMP>, m MAP<STRING, TIMESTAMP>, s STRUCT<a: {inner}>"
    said = "the value of {} is not of type "
    micros = 1_700_000_000_000_000
    json = form("json", ddl, options={"timestampFormat": "yyyyMMddHHmmss"})
    whole = b'{"b":-128,"l":["20240102030405",null],"s":{"a":{"b":127,"i":%d}}}' % micros
    rows = source_rows(delta_spark, [whole])
    (found,) = json.parse(rows).selectExpr("record.b", "record.s.a.b AS inner", "record.s.a.i", "badReason").collect()
    assert found == (-128, 127, micros, None)
    bad = {
        b'{"b":128}': "b",
        b'{"b":255}': "b",
        b'{"l":[1,%d]}' % micros: "l",
        b'{"l":["20240102030405",%d]}' % micros: "l",
        b'{"m":{"x":1,"y":%d}}' % micros: "m",
        b'{"s":{"a":{"b":200}}}': "s",
        b'{"s":{"a":{"b":1,"t":%d}}}' % micros: "s",
    }
    told = {text: said.format(name) for text, name in bad.items()}
    found_bad = {bytes(row.value): row.badReason for row in json.parse(source_rows(delta_spark, list(bad))).collect()}
    assert {text: reason and reason.split("type ")[0] + "type " for text, reason in found_bad.items()} == told


@pytest.mark.spark
@pytest.mark.parametrize("separator", [",", "||"])
def test_csv_with_very_many_fields_is_bad(delta_spark: SparkSession, separator: str) -> None:
    """Spark's parser takes no more than it is told, and ends the query with the text in the error."""
    one = separator.encode()
    assert parsed(form("csv", "a INT, b STRING", separator=separator), {
        b"1" + one + b"x": (1, "x"),
        b"1" + one * 30_000: "the number of fields is not 2",
        b"1" + one * 250_000: "the number of fields is not 2",
        b"1" + one * 250_001: "the text has more than 250000 separators",
        b"1" + one + b'"' + one * 30_000 + b'"': (1, separator * 30_000),
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_spark_has_each_encoding(delta_spark: SparkSession) -> None:
    for name in ENCODINGS:
        text = "中" if "中".encode(name, "replace").decode(name) == "中" else "a"
        given = form("csv", "a STRING", encoding=name)
        assert parsed(given, {text.encode(name): (text,)}) == GOOD, name
    gbk = form("csv", "a STRING", encoding="GBK")
    assert parsed(gbk, {b"\xff\xff,x": "the bytes are not text in GBK"}) == GOOD


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "more", "text"),
    [
        ("json", {}, '{"at":"2026-11-23 10:00:00"}'),
        ("csv", {}, "2026-11-23 10:00:00"),
        ("csv", {"options": {"timestampFormat": "yyyy-MM-dd HH:mm:ss"}}, "2026-11-23 10:00:00"),
        ("csv", {"escape": "!"}, "2026-11-23 10:00:00"),
        ("kv", {"options": {"timestampFormat": "yyyyMMddHHmmss"}}, "at=20261123100000"),
    ],
)
def test_times_are_in_the_jobs_zone(delta_spark: SparkSession, kind: str, more: dict[str, Any], text: str) -> None:
    """Not in Spark's, which stays as it is."""
    rows = source_rows(delta_spark, [text.encode()])
    for zone, utc_hour in (("UTC", 10), ("Asia/Shanghai", 2)):
        both = form(kind, "at TIMESTAMP", time_zone=zone, **more).parse(rows)
        [row] = both.selectExpr("cast(record.at AS bigint) AS at_s").collect()
        assert row.at_s == 1_795_392_000 + utc_hour * 3_600
    assert delta_spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_what_the_target_gets(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"id":1}', b'{"id":'])
    both = form("json", "id BIGINT").parse(rows)
    own = [name for name in rows.columns if name != "badReason"]
    assert both.columns == [*own, "record", "badReason", "unread"]
    [row] = target_rows(both).collect()
    assert row.asDict(recursive=True) == {
        "id": 1,
        "tubemq": {"topic": "t", "partitionKey": "1:t:0", "messageId": 100, "recordIndex": 0},
    }
    with pytest.raises(
        Exception, match="bad record in topic t, partition 1:t:0, message id 101, record 1: the text is"
    ):
        or_fail(both).collect()


@pytest.mark.spark
def test_a_bad_message_of_the_source_stays_bad(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"id":1}', b'{"id":2}'], bad={1: "the pack is broken"})
    for any_form in (form("json", "id BIGINT"), RecordFormat()):
        both = any_form.parse(rows)
        assert [row.badReason for row in both.collect()] == [None, "the pack is broken"]
        assert target_rows(both).count() == 1


@pytest.mark.spark
@pytest.mark.parametrize("select", [target_rows, or_fail])
def test_a_text_is_read_once(delta_spark: SparkSession, select: Any) -> None:
    """A filter below the parsing would read each text again for each mention of its columns."""
    rows = source_rows(delta_spark, [b"x"])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        select(form("json").parse(rows)).explain()
    # Once within each of the two wrappers.
    assert shown.getvalue().count("from_json(") == 2


@pytest.mark.parametrize("name", ["tubemq", "TubeMQ", "ID"])
def test_names_that_the_target_cannot_have(name: str) -> None:
    schema = StructType().add("id", IntegerType()).add(name, IntegerType())
    with pytest.raises(ConfigurationError, match=r"a column tubemq|id more than once"):
        RecordFormat("json", schema)
