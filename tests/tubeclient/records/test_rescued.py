"""What no column takes of records of JSON and kv: it is in `_rescued`, as it was written, or the record is bad."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.records.generated import TEXTS, json_text
from tests.tubeclient.records.reading import VARIANT, others, read, spec
from tubeclient.errors import ConfigurationError
from tubeclient.records.decoder import Decoder
from tubeclient.records.spec import RecordSpec

COLUMNS: dict[str, Any] = {
    "id": pa.int64(),
    "n": pa.int32(),
    "place": pa.struct([("city", pa.string()), ("at", pa.struct([("x", pa.int8())]))]),
    "list": pa.list_(pa.struct([("n", pa.int8())])),
    "map": pa.map_(pa.string(), pa.struct([("n", pa.int8())])),
}
PLAIN = {"id": pa.int64(), "n": pa.int32()}


def of(kind: str, rescue: str, columns: Any = PLAIN, **more: Any) -> RecordSpec:
    return spec(kind, columns, ("id",), rescue=rescue, **({"separator": "&"} if kind == "kv" else {}), **more)


def one(rescue: str, record: str | bytes, columns: Any = PLAIN, **more: Any) -> Any:
    [found] = read(of("json", rescue, columns, **more), record)
    return found


@pytest.mark.parametrize("rescue", ["fields", "values"])
def test_unknown_fields_as_they_are_written(rescue: str) -> None:
    """No number goes through a float, and no text through another way to escape it."""
    kept = [
        *(
            "1e400",
            "0.10",
            "-0",
            "12345678901234567890",
            "1" * 999,
            "3.14159265358979323846264338327950288419716939937510",
        ),
        *("null", "true", '""', "{}", "[]", '{"b" : [1,\n {"c":0.10}], "b":2}', r'"\u00e9\n\/"', '"é😀\u2028"', "9E+1"),
        *(r'"\ud800"', r'{"\udc00":"\ud800"}', "[" * 400 + "]" * 400),
    ]
    names = ["", "ID", "_rescued", "tubemq", "change", "na me", "é", "a.b", "place"]
    expected: dict[Any, Any] = {f'{{"id":1,"x":{value} }}': (1, None, f'{{"x":{value}}}') for value in kept}
    expected |= {f'{{"{name}": 1, "id":1}}': (1, None, f'{{"{name}":1}}') for name in names}
    expected |= {
        '{"id":1}': (1, None, None),
        '{"id":1,"n":null}': (1, None, None),
        # Names are written in one way, whichever the record has.
        r'{"id":1,"\u00e9\"\\\n\u0001":1}': (1, None, '{"é\\"\\\\\\n\\u0001":1}'),
        # One that is there twice is in it twice, and the order is the record's.
        '{"x":1,"id":1,"y":[],"x":2}': (1, None, '{"x":1,"y":[],"x":2}'),
        # What makes a record bad does so with or without it.
        '{"x":1}': "id is NOT NULL but has no value",
        '{"id":null,"x":1}': "id is NOT NULL but has no value",
        '{"id":"1","x":1}': "the value of id is not of type bigint, at byte 6",
        '{"id":1,"id":1,"x":1}': "id appears twice, at byte 13",
        '{"id":1,"n":1,"n":"x"}': "n appears twice, at byte 18",
        '{"id":1,"x":1}x': "something follows the JSON object, at byte 14",
        '{"id":1,"x":nul}': "the text is not JSON, at byte 12",
        r'{"id":1,"\ud800":1}': "a text has half a surrogate pair, at byte 9",
        f'{{"id":1,"x":{"1" * 1001}}}': "a number has more than 1000 characters, at byte 12",
        b'{"id":1,"x":"\xff"}': "the bytes are not UTF-8 text, at byte 13",
        b'{"id":1,"x":"\xed\xa0\x80"}': "the bytes are not UTF-8 text, at byte 13",
        '{"id":1,"x":' + "[" * 500 + "]" * 500 + "}": "the JSON is deeper than 500 levels, at byte 511",
        "": "the record is empty",
        None: "the record is null",
    }
    assert others(of("json", rescue), expected) == {}


def test_field_read_in_part() -> None:
    """A field is rescued as a whole if its column takes only a part of it."""
    cases: list[tuple[str, Any, str | None]] = [
        ('"place":{"city":"x","zip":1.0}', ({"city": "x", "at": None}, None, None), '{"place":{"city":"x","zip":1.0}}'),
        (
            '"place":{"at":{"x":1, "y":2}}',
            ({"city": None, "at": {"x": 1}}, None, None),
            '{"place":{"at":{"x":1, "y":2}}}',
        ),
        (
            '"list":[{"n":1},{"N":2},null]',
            (None, [{"n": 1}, {"n": None}, None], None),
            '{"list":[{"n":1},{"N":2},null]}',
        ),
        ('"map":{"k":{"n":1,"o":null}}', (None, None, [("k", {"n": 1})]), '{"map":{"k":{"n":1,"o":null}}}'),
        ('"place":{"city":{"any":1}}', ({"city": '{"any":1}', "at": None}, None, None), None),
        ('"place":{"at":{}},"list":[{}],"map":{}', ({"city": None, "at": {"x": None}}, [{"n": None}], []), None),
    ]
    for record, row, rescued in cases:
        assert one("fields", f'{{{record},"id":1}}', COLUMNS) == (1, None, *row, rescued), record
        assert one("values", f'{{{record},"id":1}}', COLUMNS) == (1, None, *row, rescued), record
    rest = '"list":[{"n":1}],"map":{"k":{}}'
    assert one("fields", f'{{"id":1,"place":{{"zip":0}},{rest}}}', COLUMNS)[-1] == '{"place":{"zip":0}}'
    both = '{"z":1,"place":{"zip":0},"id":1,"list":[{"m":0}],"a":2}'
    assert one("fields", both, COLUMNS)[-1] == '{"z":1,"place":{"zip":0},"list":[{"m":0}],"a":2}'


def test_values_that_are_not_of_their_columns_type() -> None:
    for record, column in [
        ('"n":"1"', "n"),
        ('"n":1.5', "n"),
        ('"n": 2147483648', "n"),
        ('"n":[1, 0.10]', "n"),
        ('"place":"x"', "place"),
        ('"place":{"city":"x","at":{"x":128}}', "place"),
        ('"place":{"city":1,"city":1}', "place"),
        ('"list":[{"n":1},2]', "list"),
        ('"map":{"k":{},"k":{}}', "map"),
    ]:
        whole = f'{{"id":1,{record}}}'
        assert isinstance(one("fields", whole, COLUMNS), str), record
        found = one("values", whole, COLUMNS)
        assert found == (1, None, None, None, None, f"{{{record.replace(': ', ':')}}}"), record
        assert isinstance(one("values", whole, {**COLUMNS, "id": pa.int8()} | {column: COLUMNS[column]}), tuple)
        [bad] = read(spec("json", COLUMNS, ("id", column), rescue="values"), whole)
        assert bad == one("fields", whole, COLUMNS)
    # The others keep their values, and the record's order is kept too.
    assert one("values", '{"n":"1","x":0,"id":7}') == (7, None, '{"n":"1","x":0}')
    times: dict[str, Any] = {"day": pa.date32(), "v": VARIANT, "d": pa.decimal128(3, 2)}
    record = '{"day":"0000-01-01","v":{"a":1,"a":2},"d":"9.995"}'
    assert read(spec("json", times, rescue="values"), record) == [(None, None, None, record)]


def test_too_many_values() -> None:
    """A record with too many values is bad and is not rescued."""
    columns = {"list": pa.list_(pa.struct([(f"c{n}", pa.int8()) for n in range(200)])), "n": pa.int8()}
    record = '{"list":[' + ",".join(["{}"] * 6_000) + '],"n":1}'
    [found] = read(spec("json", columns, rescue="values"), record)
    assert found.startswith("the record has more than 1000000 values")


def test_lenient_json_becomes_strict() -> None:
    """A value that is JSON only with options is rescued as a text, so the result is strict JSON."""
    options = dict.fromkeys(
        ("allowComments", "allowUnquotedFieldNames", "allowNumericLeadingZeros", "allowUnquotedControlChars"), "true"
    )
    for value, rescued in [
        ("NaN", '"NaN"'),
        ("-INF", '"-INF"'),
        ("007", '"007"'),
        ("'a\"\\'b'", '"a\\"\'b"'),
        (r'"a\'b"', '"a\'b"'),
        ('"a\tb"', '"a\\tb"'),
        ("[1 /* one */]", '"[1 /* one */]"'),
        ("{'a':1}", "\"{'a':1}\""),
        ("/* one */ 1", "1"),
    ]:
        found = one("fields", f"{{'id':1, x:{value}}}", options=options)
        assert found == (1, None, f'{{"x":{rescued}}}')
        assert json.loads(found[-1])
    assert one("fields", r"""{"id":1,"x":'\ud800'}""") == "a text has half a surrogate pair, at byte 13"


@pytest.mark.parametrize("rescue", ["fields", "values"])
def test_unknown_keys_of_kv(rescue: str) -> None:
    expected: dict[Any, Any] = {
        "id=1": (1, None, None),
        "id=1&x=y": (1, None, '{"x":"y"}'),
        "x=1&id=1&x=&ID=2": (1, None, '{"x":"1","x":"","ID":"2"}'),
        "id=1&=x&&_rescued=1": (1, None, '{"":"x","_rescued":"1"}'),
        "id=1&x=NULL&n=NULL": (1, None, '{"x":"NULL"}'),
        'id=1&x=a="é"\t\\&\\&': (1, None, '{"x":"a=\\"é\\"\\t&&"}'),
        "id=1&x=\\\\\x00\x7f": (1, None, '{"x":"\\\\\\u0000\x7f"}'),
        "id=1&x": "a part has no =, at byte 5",
        "x=1": "id is NOT NULL but has no value",
        "id=x&y=1": "the value of id is not of type bigint, at byte 3",
        "id=1&n=1&n=x": "n appears twice, at byte 9",
    }
    assert others(of("kv", rescue, escape="\\", options={"nullValue": "NULL"}), expected) == {}


def test_values_of_kv() -> None:
    assert read(of("kv", "fields"), "id=1&n=x") == ["the value of n is not of type int, at byte 7"]
    assert read(of("kv", "values"), "n= x &y=0&id=1") == [(1, None, '{"n":" x ","y":"0"}')]


def test_other_encodings() -> None:
    record = '{"id":1,"名":"中"}'.encode("GBK")
    assert one("fields", record, encoding="GBK") == (1, None, '{"名":"中"}')
    assert one("fields", '\ufeff{"id":1,"x":1}\r\n') == (1, None, '{"x":1}')


def test_without_it_there_is_no_such_column() -> None:
    assert one("none", '{"id":1,"x":1}') == (1, None)
    assert Decoder(of("json", "none")).type == pa.struct(PLAIN)
    assert Decoder(of("json", "fields")).type == pa.struct({**PLAIN, "_rescued": pa.string()})
    # Then a schema may have the name itself.
    assert read(spec("json", {"_rescued": pa.int8()}), '{"_rescued":1}') == [(1,)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "json", "rescue": "all"}, "rescue is 'all'; write none, fields or values"),
        (
            {"kind": "csv", "rescue": "fields"},
            "rescue is fields, but the format is csv; only json and kv .* leave it out",
        ),
        ({"kind": "canal-json", "rescue": "values"}, "the format is canal-json"),
        ({"kind": "debezium-json", "rescue": "values"}, "the format is debezium-json"),
        ({"kind": "avro", "rescue": "values"}, "the format is avro"),
        ({"kind": "protobuf", "rescue": "values"}, "the format is protobuf"),
    ],
)
def test_a_wrong_setting_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Decoder(RecordSpec(schema=pa.schema([]), **given))


@pytest.mark.parametrize("name", ["_rescued", "_RESCUED"])
def test_a_schema_with_the_columns_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the schema has a column {name}, .* rename it, or leave rescue out"):
        Decoder(spec("json", {name: pa.string()}, rescue="fields"))


JSON = json_text(pa.list_(pa.string())).filter(lambda text: "NaN" not in text)
PAIRS = st.lists(st.tuples(TEXTS | st.sampled_from(["id", "n"]), JSON), max_size=5)


@given(PAIRS)
def test_nothing_is_lost_and_nothing_is_added(pairs: list[tuple[str, str]]) -> None:
    """By Python's own reader, which takes no part in it. Of a good record each pair is in a column, or rescued."""
    record = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in [("id", "1"), *pairs]) + "}"
    found = one("values", record)
    if isinstance(found, str):
        return
    of_all = _pairs(record)
    columns = {name: value for name, value in zip(PLAIN, found[:2], strict=True) if value is not None}
    rescued = [] if found[-1] is None else _pairs(found[-1])
    named = [(name, value) for name, value in of_all if name in columns]
    assert [(name, int(value)) for name, value in named] == [*columns.items()]
    wanted = [(name, value) for name, value in of_all if name not in columns and (name, value) != ("n", None)]
    assert list(map(repr, rescued)) == list(map(repr, wanted))


def _pairs(text: str) -> list[tuple[str, Any]]:
    """An object's pairs with numbers as texts; those of objects within too."""
    found: list[tuple[str, Any]] = json.loads(
        text, object_pairs_hook=list, parse_float=str, parse_int=str, parse_constant=str
    )
    return found
