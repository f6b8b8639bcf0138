"""csv and kv: what separates, quotes and escapes, and what values mean in texts."""

from __future__ import annotations

import csv
import io
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.records.reading import GOOD, LOCAL, MOMENT, others, read, same, spec
from tubeclient.errors import ConfigurationError

CLICKS = {"id": pa.int64(), "name": pa.string(), "at": pa.date32()}
PAIR = {"a": pa.string(), "b": pa.string()}
DAY = 19_724


def test_csv_with_quotes() -> None:
    assert others(spec("csv", CLICKS, required=("id",), separator="|"), {
        "1|x|2024-01-02": (1, "x", DAY),
        "1||": (1, None, None),
        "1| x |": (1, " x ", None),
        '1|"a|b"|': (1, "a|b", None),
        '1|"a""b"|': (1, 'a"b', None),  # RFC 4180; Spark keeps both
        '1|""""|': (1, '"', None),
        '1|"a\\\\"|': (1, "a\\\\", None),  # a backslash is itself
        '1|"a\\b"|': (1, "a\\b", None),
        '1|"{""p"": ""C:\\\\d""}"|': (1, '{"p": "C:\\\\d"}', None),
        '1|"a\\"|': (1, "a\\", None),
        '1|"a\\"b"|': "something follows a closing quote, at byte 6",
        '1|a\\|': (1, "a\\", None),  # outside of quotes nothing is escaped
        '1|""|': (1, None, None),
        '1|" "|': (1, " ", None),
        '"1"|x|"2024-01-02"': (1, "x", DAY),
        '1|5" pipe|': (1, '5" pipe', None),
        '1| "x"|': (1, ' "x"', None),
        '1|"x\ny\r\n|"|': (1, "x\ny\r\n|", None),
        "1|x|\r\n": (1, "x", None),
        "1|x\u2028y\u0085|": (1, "x\u2028y\u0085", None),
        "1|x\0|": (1, "x\0", None),
        "1|x|\n2|y|": "the text has several lines, at byte 4",
        '1|5" pipe|\n2|y|': "the text has several lines, at byte 10",
        '1|"x"|\r2|y|': "the text has several lines, at byte 6",
        '1|"x"\n|': "the text has several lines, at byte 5",
        "1|x\ny|": "the text has several lines, at byte 3",
        '1|"x"y|': "something follows a closing quote, at byte 5",
        '1|"x" |': "something follows a closing quote, at byte 5",
        '1|x|"': "a quote is not closed, at byte 4",
        '1|"a""|': "a quote is not closed, at byte 2",
        "\0001|x|": "the value of id is not of type bigint, at byte 0",
        "a|x|": "the value of id is not of type bigint, at byte 0",
        "1|é|y": "the value of at is not of type date, at byte 5",
        "1|x": "the number of fields is not 3",
        "1|x||": "the number of fields is not 3",
        "1": "the number of fields is not 3",
        "|x|": "id is NOT NULL but has no value",
        "": "the record is empty",
        "\r\n": "the record is empty",
    }) == GOOD  # fmt: skip


def test_options_of_csv() -> None:
    def values(record: str, **options: str) -> Any:
        return read(spec("csv", PAIR, options=options), record)[0]

    assert values("'x,y',-", quote="'", nullValue="-") == ("x,y", None)
    assert values('"-",x', nullValue="-") == (None, "x")
    # Where null is written in another way, an empty text in quotes is a text.
    assert values('"",', nullValue="-") == ("", None)
    assert values('"",x', emptyValue="none") == ("none", "x")
    assert values('"a!"b","c!d"', escape="!") == ('a"b', "c!d")
    assert values('"C:\\","x"') == ("C:\\", "x")
    # As Spark writes it.
    assert values(r'"a\"b","\\\""', escape="\\") == ('a"b', '\\"')
    assert values(r'"a\b","a\\"', escape="\\") == ("a\\b", "a\\")
    assert values(r'"a\",x', escape="\\") == "a quote is not closed, at byte 0"
    assert values('"a""b","C:\\"', escape='"') == ('a"b', "C:\\")
    assert values('"a!!","b!"c"', escape="!") == ("a!", 'b"c')
    assert values('"a?!","b!"c"', escape="!", charToEscapeQuoteEscaping="?") == ("a!", 'b"c')
    assert values('"a!!",x', escape="!", charToEscapeQuoteEscaping="") == "a quote is not closed, at byte 0"
    assert values('"?","a""b"', escape="", charToEscapeQuoteEscaping="?") == ("?", 'a"b')
    assert values(" x , y ") == (" x ", " y ")
    assert values(" x , y ", ignoreLeadingWhiteSpace="true") == ("x ", "y ")
    assert values(' x ," y " ', ignoreTrailingWhiteSpace="true") == (" x", " y ")
    both = {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
    assert values(' "x, " ,\t"y"\t', **both) == ("x, ", "y")
    assert values(" , ", **both) == (None, None)
    for wrong in ({"quote": "''"}, {"escape": "ab"}, {"charToEscapeQuoteEscaping": "ab"}):
        with pytest.raises(ConfigurationError, match="must be single characters"):
            values("x", **wrong)
    with pytest.raises(ConfigurationError, match="ignoreLeadingWhiteSpace is 'yes'"):
        values("x", ignoreLeadingWhiteSpace="yes")
    with pytest.raises(ConfigurationError, match="cannot have the separator"):
        values("x", quote=",")


def test_words_and_numbers_in_texts() -> None:
    columns = {"f": pa.float32(), "d": pa.decimal128(10, 2), "b": pa.bool_(), "i": pa.int8()}
    inf = math.inf
    options = {"nanValue": "n/a", "positiveInf": "big", "negativeInf": "-big"}
    simple = dict(zip(columns, ("float", "decimal(10,2)", "boolean", "tinyint"), strict=True))
    good: list[tuple[str, str, Any]] = [
        *(("f", text, math.nan) for text in ("NaN", "nan", "n/a")),
        *(("f", text, inf) for text in ("Infinity", "inf", "+INF", "+infinity", "big")),
        *(("f", text, -inf) for text in ("-Infinity", "-inf", "-big")),
        *(("f", text, 1.5) for text in ("1.5", " 1.5 ", "+1.5", "15e-1", "\t1.5\n"[:-1])),
        ("f", "1.", 1.0),
        ("f", ".5", 0.5),
        *(("d", text, Decimal("1.01")) for text in ("1.005", "+1.005", " 1.01", "101e-2", "01.01")),
        *(("d", text, Decimal("0.00")) for text in ("1e-999", "0", "-0", ".0", "0e999")),
        *(("b", text, True) for text in ("true", "TRUE", " True ")),
        ("b", "fAlSe", False),
        *(("i", text, 7) for text in ("7", "+7", "007", " 7 ")),
        ("i", "-128", -128),
    ]
    wrong = [
        *(("f", text) for text in ("1e39", "1e400", "1,5", "1_0", "1.5f", "0x1", "1e", "--1", "- 1", "e5", ".")),
        *(("d", text) for text in ("1,234.5", "1e8", "1e999999999", "NaN", "inf", "1" * 999_999, "1e", "\u0661")),
        *(("b", text) for text in ("1", "0", "yes", "t", "truee")),
        *(("i", text) for text in ("128", "1.0", "1e1", "1_0", "+-1", "\u0661", "\uff11", "9" * 5_000, "+")),
    ]
    for form, write in (
        (spec("csv", columns, separator="|", options=options), None),
        (spec("kv", columns, separator="&"), "kv"),
    ):

        def record(name: str, text: str, write: str | None = write) -> str:
            return f"{name}={text}" if write else "|".join(text if name == one else "" for one in columns)

        expected: dict[str, Any] = {
            record(name, text): tuple(value if name == one else None for one in columns)
            for name, text, value in good
            if write is None or text not in options.values()
        }
        found = read(form, *expected, *(record(name, text) for name, text in wrong))
        assert same(found[: len(expected)], list(expected.values()))
        assert [re.sub(", at byte .*", "", reason) for reason in found[len(expected) :]] == [
            f"the value of {name} is not of type {simple[name]}" for name, _ in wrong
        ]


def test_times_in_texts() -> None:
    columns = {"t": MOMENT, "n": LOCAL, "d": pa.date32()}
    day = DAY * 86_400_000_000
    for form, record in (
        (spec("csv", columns, time_zone="Asia/Shanghai"), "{},{},{}"),
        (spec("csv", columns, time_zone="Asia/Shanghai", escape="\\"), "{},{},{}"),
        (spec("kv", columns, time_zone="Asia/Shanghai", separator="&"), "t={}&n={}&d={}"),
    ):
        assert others(form, {
            record.format("2024-01-02 08:00:00", " 2024-01-02 ", "2024-1-2"): (day, day, DAY),
            record.format("2024-01-02T00:00:00Z", "", ""): (day, None, None),
            record.format("1704164645", "", ""):
                f"the value of t is not of type timestamp, at byte {record.index('{')}",
        }) == GOOD  # fmt: skip
    form = spec("kv", columns, options={"timestampFormat": "yyyyMMddHHmmss", "dateFormat": "yyyyMMdd"})
    assert others(form, {"t=20240102000000,d=20240102": (day, None, DAY)}) == GOOD


@pytest.mark.parametrize("more", [{"escape": "\\"}, {"options": {"quote": ""}}])
def test_csv_without_quotes(more: dict[str, Any]) -> None:
    assert others(spec("csv", PAIR, separator="|", **more), {
        '"x|"y"': ('"x', '"y"'),
        "|": (None, None),
        '""|x': ('""', "x"),
        "x\ny|\u2028": ("x\ny", "\u2028"),
        "x\0|\0\0": ("x\0", "\0\0"),
        " x | ": (" x ", " "),
        "x": "the number of fields is not 2",
    }) == GOOD  # fmt: skip


def test_csv_with_escapes() -> None:
    assert others(spec("csv", CLICKS, separator="|", escape="\\"), {
        "1|a\\|b\\\\|2024-01-02": (1, "a|b\\", DAY),
        "\\1||": (1, None, None),
        "1|" + "\\|" * 50_000 + "|": (1, "|" * 50_000, None),
        "1|x\\||": (1, "x|", None),
        "1|\\n\\\\n|": (1, "n\\n", None),
        "1|é\\|x|a": "the value of at is not of type date, at byte 8",
        "1.5|x|": "the value of id is not of type bigint, at byte 0",
        "1|x": "the number of fields is not 3",
        "1|x|\\": "the text ends with the escape character \\, at byte 4",
        "\\": "the text ends with the escape character \\, at byte 0",
        "1|x|\\\\\\": "the text ends with the escape character \\, at byte 6",
    }) == GOOD  # fmt: skip


def test_line_ends_of_a_record() -> None:
    """They are no part of it, but where they separate, or are escaped."""
    escaped = spec("csv", PAIR, escape="\\")
    assert others(escaped, {
        "a,x\r\n\n": ("a", "x"),
        "a,x\\\n": ("a", "x\n"),
        "a,x\\\n\n": ("a", "x\n"),
        "a,x\\\\\n": ("a", "x\\"),  # the escape is escaped, and so the line's end is none of the text
        "a,x\r\\\r\n": ("a", "x\r\r"),
        "a,x\\\\\\\r\n": ("a", "x\\\r"),
    }) == GOOD  # fmt: skip
    lines = spec("csv", PAIR, separator="\n", escape="\\")
    assert others(lines, {"a\nx": ("a", "x"), "a\n": ("a", None), "a\\\n\n": ("a\n", None)}) == GOOD
    quoted = spec("csv", PAIR, separator="\n")
    assert others(quoted, {'a\n"x\n"': ("a", "x\n"), "a\rb\n": ("a\rb", None)}) == GOOD


def test_kv() -> None:
    form = spec("kv", CLICKS, required=("id",), separator="&", options={"nullValue": "-"})
    assert others(form, {
        "id=1&name=a=b&at=2024-01-02&": (1, "a=b", DAY),
        "&&id=1&&name=x": (1, "x", None),
        "more=5&name=-&id=2&=x&more=6": (2, None, None),
        "id=1&name=\\": (1, "\\", None),
        "id=1&name=": (1, None, None),
        'id=1&name="x"': (1, '"x"', None),
        "id=1&Name=x": (1, None, None),
        "id=1&x": "a part has no =, at byte 5",
        "id=1&id=2": "id appears twice, at byte 5",
        "id=&id=": "id appears twice, at byte 4",
        "é=1&id=x": "the value of id is not of type bigint, at byte 8",
        "name=x": "id is NOT NULL but has no value",
        "id=-": "id is NOT NULL but has no value",
        "": "the record is empty",
    }) == GOOD  # fmt: skip
    columns = {"a b": pa.string(), "c=": pa.string()}
    assert others(spec("kv", columns, separator="\t", options={"kvSeparator": ":"}, escape="\\"), {
        "a b:x\\\ty\\:z:\tc=:1": ("x\ty:z:", "1"),
        "a \\b:\\\\": ("\\", None),
        "\\a b:1\\\n": ("1\n", None),
        "c=:1\\": "the text ends with the escape character \\, at byte 4",
        "c=\\:1": "a part has no :, at byte 0",
    }) == GOOD  # fmt: skip


@pytest.mark.parametrize("separator", [",", "||"])
def test_csv_with_very_many_fields(separator: str) -> None:
    assert others(spec("csv", {"a": pa.int32(), "b": pa.string()}, separator=separator), {
        f"1{separator}x": (1, "x"),
        "1" + separator * 250_000: "the number of fields is not 2",
        "1" + separator * 250_001: "the text has more than 250000 separators",
        f'1{separator}"{separator * 30_000}"': (1, separator * 30_000),
    }) == GOOD  # fmt: skip


def test_settings_that_cannot_be_told_apart() -> None:
    wrong: tuple[dict[str, Any], ...]
    wrong = ({"separator": "||", "escape": "\\"}, {"separator": "\\", "escape": "\\"}, {"separator": ""})
    for more in wrong:
        with pytest.raises(ConfigurationError):
            read(spec("csv", PAIR, **more))
    with pytest.raises(ConfigurationError):
        read(spec("kv", PAIR, options={"kvSeparator": "=="}))


TEXTS = st.lists(st.text('ab",\\\n\r |é', max_size=6), min_size=2, max_size=2)


@given(TEXTS, st.booleans())
def test_what_pythons_csv_writes_is_read(texts: list[str], is_excel: bool) -> None:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_MINIMAL if is_excel else csv.QUOTE_ALL).writerow(texts)
    form = spec("csv", PAIR, options={"escape": "", "nullValue": "\0"})
    # In Python's csv a last empty text is written as such: of a null nobody tells it.
    assert read(form, written.getvalue()) == [tuple(text if text or not is_excel else None for text in texts)]


@given(TEXTS, st.sampled_from(",|&=\t\x01"), st.sampled_from("\\!é"))
def test_escaped_texts_come_back(texts: list[str], separator: str, escape: str) -> None:
    special = f"[{re.escape(separator)}{re.escape(escape)}=\r\n]"
    written = [re.sub(special, lambda found: escape + found[0], text) for text in texts]
    expected = [tuple(text or None for text in texts)]
    csv_form = spec("csv", PAIR, separator=separator, escape=escape)
    assert read(csv_form, separator.join(written)) == expected
    if separator != "=":
        kv_form = spec("kv", PAIR, separator=separator, escape=escape)
        pairs = (f"{name}={text}" for name, text in zip(PAIR, written, strict=True))
        assert read(kv_form, separator.join(pairs)) == expected
