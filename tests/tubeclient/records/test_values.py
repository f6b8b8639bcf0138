"""Values of columns from JSON: exact, or the record is bad."""

from __future__ import annotations

import base64
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.tubeclient.records.reading import GOOD, LOCAL, MOMENT, VARIANT, others, read, same, spec

ALL = {
    "b": pa.bool_(),
    "i": pa.int32(),
    "f": pa.float32(),
    "g": pa.float64(),
    "d": pa.decimal128(5, 2),
    "s": pa.string(),
    "y": pa.binary(),
    "day": pa.date32(),
    "t": MOMENT,
    "n": LOCAL,
}


def one(kind: Any, *texts: str, **more: Any) -> dict[str, Any]:
    """What JSON's texts are as values of one column `a`."""
    found = read(spec("json", {"a": kind}, **more), *(f'{{"a":{text}}}' for text in texts))
    return {text: value[0] if isinstance(value, tuple) else value for text, value in zip(texts, found, strict=True)}


def bad(simple: str, *texts: str, name: str = "a", place: int = 5) -> dict[str, str]:
    return dict.fromkeys(texts, f"the value of {name} is not of type {simple}, at byte {place}")


def test_what_is_missing_or_null_is_null() -> None:
    nothing = (None,) * len(ALL)
    nulls = ",".join(f'"{name}":null' for name in ALL)
    assert others(spec("json", ALL), {"{}": nothing, f"{{{nulls}}}": nothing, '{"B":true,"x":1}': nothing}) == GOOD


def test_empty_text() -> None:
    """An empty text is a value only for string and binary columns."""
    for name, kind in ALL.items():
        found = one(kind, '""')['""']
        if name in "sy":
            assert found in ("", b"")
        else:
            assert found.startswith("the value of a is not of type ")


def test_booleans() -> None:
    texts = ('"true"', "1", "0", '"TRUE"', "[]", "{}", "NaN")
    assert one(pa.bool_(), "true", "false", *texts) == {"true": True, "false": False, **bad("boolean", *texts)}


@pytest.mark.parametrize(("kind", "simple"), [(pa.int8(), "tinyint"), (pa.int16(), "smallint"), (pa.int64(), "bigint")])
def test_whole_numbers(kind: pa.DataType, simple: str) -> None:
    most = (1 << kind.bit_width - 1) - 1
    good = {str(number): number for number in (0, most, -most - 1)} | {"-0": 0}
    texts = (
        *(str(most + 1), str(-most - 2), "1" * 1_000, "1.0", "1.5", "1e2", "1E0", "true", "NaN", "Infinity"),
        *('"1"', '""', "[1]", "{}"),
    )
    assert one(kind, *good, *texts) == {**good, **bad(simple, *texts)}


def test_decimals_are_exact() -> None:
    good = {
        "1": "1.00",
        "-1.5": "-1.50",
        '"1.25"': "1.25",
        '"+1"': "1.00",
        '".5"': "0.50",
        "1.005": "1.01",  # which is no number of a double: 1.00499999999999989
        "-1.005": "-1.01",
        "2.675": "2.68",
        "0.004": "0.00",
        "1.5e2": "150.00",
        "1e-2": "0.01",
        "1e-999": "0.00",
        "1e-999999999": "0.00",
        "0e999999999": "0.00",
        "999.99": "999.99",
        "999.994999999999999999999999999999999999999999999999999999": "999.99",
        "0." + "0" * 900 + "1": "0.00",
        "0." + "9" * 900: "1.00",
    }
    texts = (
        *("999.995", "-999.995", "1000", "1e3", "1e999999999", "-1e999999999", "1e99999999999999999999", "9" * 999),
        *('"1e99999999999999999999"', "1e-99999999999999999999"),
        *('""', '"x"', '"1,000"', '"1_0"', '" 1"', '"1 "', '"NaN"', '"Infinity"', '"1e"', '"0x1"', '"\u0661"'),
        *("true", "NaN", "[1]", "{}", '"' + "1" * 1_000_000 + '"'),
    )
    found = one(pa.decimal128(5, 2), *good, *texts)
    assert found == {**{text: Decimal(value) for text, value in good.items()}, **bad("decimal(5,2)", *texts)}


def test_decimals_of_38_digits() -> None:
    most = "9" * 38
    assert one(pa.decimal128(38, 0), most, most + ".4") == dict.fromkeys((most, most + ".4"), Decimal(most))
    assert one(pa.decimal128(38, 0), most + ".5", most + "9")[most + ".5"].startswith("the value of a is not of type")
    least = "0." + "0" * 37 + "1"
    assert one(pa.decimal128(38, 38), least)[least] == Decimal(least)
    exact = "12345678901234567890.123456789012345678"
    assert str(one(pa.decimal128(38, 18), exact)[exact]) == exact


@given(st.decimals(-(10**20), 10**20, allow_nan=False), st.integers(1, 38), st.data())
def test_decimal_rounding(number: Decimal, precision: int, data: st.DataObject) -> None:
    """A decimal is rounded half up from the digits in the record."""
    scale = data.draw(st.integers(0, precision))
    text = f"{number:f}"
    assume(len(text) < 1_000)
    whole, _, fraction = text.lstrip("-").partition(".")
    kept = int(whole + fraction[:scale].ljust(scale, "0"))
    expected = kept + (fraction[scale : scale + 1] >= "5")
    found = one(pa.decimal128(precision, scale), text)[text]
    if expected >= 10**precision:
        assert isinstance(found, str)
    else:
        assert abs(int(found.scaleb(scale))) == expected


def test_floats() -> None:
    inf, most = math.inf, 1.7976931348623157e308
    doubles: dict[str, Any] = {
        "1": 1.0,
        "-0": -0.0,
        "1.5e-3": 0.0015,
        "1e-400": 0.0,
        "4.9e-324": 5e-324,
        str(most): most,
        "0.1": 0.1,
        **dict.fromkeys(("NaN", '"NaN"'), math.nan),
        **dict.fromkeys(("Infinity", '"Infinity"', '"+INF"', "INF", '"INF"'), inf),
        **dict.fromkeys(("-Infinity", '"-Infinity"', "-INF", '"-INF"'), -inf),
    }
    texts = ("1e400", "-1e400", "1.8e308", "1" + "0" * 400, "1e999999999", "1e99999999999999999999", '"1.5"', '""')
    more = ('"nan"', '"Inf"', '"infinity"', "true", "[1]", "{}")
    found = one(pa.float64(), *doubles, *texts, *more)
    assert same(found, {**doubles, **bad("double", *texts, *more)})
    singles: dict[str, Any] = {
        "3.4028235677973366e38": 3.4028234663852886e38,
        "0.1": 0.10000000149011612,
        "1e-50": 0.0,
        "1.4e-45": 1.401298464324817e-45,
        "-0.0": -0.0,
        "NaN": math.nan,
        "Infinity": inf,
        # Between two float32, a bit above the middle: to round to a double first ends in the middle, and then below.
        "1.00000005960464477540": 1.0000001192092896,
        "1.00000005960464477538": 1.0,
    }
    beyond = ("1e39", "-3.4028236e38", "3.4028235677973367e38", "1" + "0" * 39, "1e400")
    assert same(one(pa.float32(), *singles, *beyond), {**singles, **bad("float", *beyond)})


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-2, 2))
def test_a_float_is_the_nearest_one(number: float, off: int) -> None:
    """What is written around the middle between two neighbours."""
    (bits,) = struct.unpack("<i", struct.pack("<f", abs(number)))
    assume(bits < 0x7F7FFFFF)
    (after,) = struct.unpack("<f", struct.pack("<i", bits + 1))
    low, high = Decimal(abs(number)), Decimal(after)
    middle = f"{(low + high) / 2 + off * Decimal('1e-170'):f}"[:900]
    found = one(pa.float32(), middle)[middle]
    assert found in (abs(number), after)
    # The other one is no nearer.
    text = Decimal(middle)
    assert abs(Decimal(found) - text) <= min(abs(low - text), abs(high - text))


def test_a_string_is_what_was_written() -> None:
    """So a number keeps its digits, and an object its spaces."""
    written = (
        *("1.0", "1e5", "-0", "0.1000", "12345678901234567890.12345678901234567890", "1E400", "true", "NaN", "[ 1,2 ]"),
        *('{ "b" : 1.10, "b": "\\u0041" }', '["\\ud83d"]'),
    )
    assert one(pa.string(), *written) == {text: text for text in written}
    texts = {r'"\u0000x"': "\0x", '"é😀"': "é😀", r'"\ud83d\ude00"': "😀", '"null"': "null", '" x "': " x "}
    assert one(pa.string(), *texts) == texts
    nested = pa.list_(pa.struct([("x", pa.string())]))
    assert one(nested, '[{"x": 1.10}]') == {'[{"x": 1.10}]': [{"x": "1.10"}]}


def test_binary_is_base64() -> None:
    data = bytes(range(256))
    written = f'"{base64.b64encode(data).decode()}"'
    assert one(pa.binary(), written, '"AA=="') == {written: data, '"AA=="': b"\0"}
    texts = (
        '"A"',
        '"AAA"',
        '"AA==="',
        '"A A="',
        '"AA==\\n"',
        '"-_8="',
        '"é"',
        "1",
        "[]",
        '"AAAA="',
        '"AB=="',
        '"AA==AA=="',
    )
    assert one(pa.binary(), *texts) == bad("binary", *texts)


def test_times() -> None:
    second = 1_000_000
    good = {
        '"2024-01-02 03:04:05"': 1_704_164_645 * second,
        "1704164645": 1_704_164_645 * second,
        "0": 0,
        "-62135596800": -62_135_596_800 * second,
        "253402300799": 253_402_300_799 * second,
    }
    texts = ('"1704164645"', "1.5", "1e3", "true", '""', '" 2024-01-02"', "{}")
    assert one(MOMENT, *good, *texts) == {**good, **bad("timestamp", *texts)}
    # Milliseconds are no seconds.
    far = ("1704164645000", "-62135596801", "253402300800", "9" * 999, '"0000-01-01"')
    assert one(MOMENT, *far) == dict.fromkeys(far, "a is outside the years 1 to 9999, at byte 5")
    assert one(MOMENT, "1" * 1_001)["1" * 1_001] == "a number has more than 1000 characters, at byte 5"
    numbers = ("0", "1704164645", '"2024-01-02Z"')
    assert one(LOCAL, *numbers) == bad("timestamp_ntz", *numbers)
    dates = ("0", '"2024-01-02 00:00:00"', '"2024-13-01"', '"0000-00-00"')
    assert one(pa.date32(), '"2024-01-02"', *dates) == {'"2024-01-02"': 19_724, **bad("date", *dates)}


def test_time_formats_at_any_depth() -> None:
    """The time format options apply to values at any depth."""
    inner = pa.struct([("t", MOMENT), ("d", pa.date32()), ("n", LOCAL)])
    options = {"timestampFormat": "yyyyMMddHHmmss", "dateFormat": "dd.MM.yyyy", "timestampNTZFormat": "yyyyMMdd"}
    form = spec("json", {"l": pa.list_(inner)}, options=options, time_zone="Asia/Shanghai")
    good = '{"l":[{"t":"20240102080000","d":"02.01.2024","n":"20240102"}]}'
    day = 19_724 * 86_400_000_000
    assert others(form, {
        good: ([{"t": day, "d": 19_724, "n": day}],),
        good.replace("02.01.2024", "2024-01-02"): "the value of l[0].d is not of type date, at byte 32",
    }) == GOOD  # fmt: skip


def test_lists_maps_and_structs() -> None:
    columns = {
        "l": pa.list_(pa.int32()),
        "m": pa.map_(pa.int32(), pa.float64()),
        "s": pa.struct([("a", pa.struct([("b", pa.int8())])), ("l", pa.list_(pa.list_(pa.date32())))]),
    }
    assert others(spec("json", columns), {
        '{"l":[1,null],"m":{"1":2.5,"2":null},"s":{"a":{"b":1}}}':
            ([1, None], [(1, 2.5), (2, None)], {"a": {"b": 1}, "l": None}),
        '{"l":[],"m":{},"s":{}}': ([], [], {"a": None, "l": None}),
        '{"s":{"a":null,"x":{"a":1,"a":2}}}': (None, None, {"a": None, "l": None}),
        '{"l":{}}': "the value of l is not of type array<int>, at byte 5",
        '{"l":"[1]"}': "the value of l is not of type array<int>, at byte 5",
        '{"l":[1,"a"]}': "the value of l[1] is not of type int, at byte 8",
        '{"m":[]}': "the value of m is not of type map<int,double>, at byte 5",
        '{"m":{"x":1}}': "the value of m.key is not of type int, at byte 10",
        '{"m":{"1":"x"}}': "the value of m.value is not of type double, at byte 10",
        '{"m":{"1":1,"1":2}}': "a key of m appears twice, at byte 5",
        '{"m":{"1":1,"+1":2}}': "a key of m appears twice, at byte 5",
        '{"s":[]}': "the value of s is not of type struct<a:struct<b:tinyint>,l:array<array<date>>>, at byte 5",
        '{"s":{"a":{"b":200}}}': "the value of s.a.b is not of type tinyint, at byte 15",
        '{"s":{"a":{"b":1},"a":{}}}': "s.a appears twice, at byte 22",
        '{"s":{"a":{"b":1,"b":1}}}': "s.a.b appears twice, at byte 21",
        '{"s":{"l":[[],["x"]]}}': "the value of s.l[1][0] is not of type date, at byte 15",
        '{"s":{"l":[["0000-01-01"]]}}': "s.l[0][0] is outside the years 1 to 9999, at byte 12",
        '{"l":[1],"l":[1]}': "l appears twice, at byte 13",
        '{"x":1,"x":2,"y":{"z":1,"z":2}}': (None, None, None),
    }) == GOOD  # fmt: skip


def test_keys_of_maps_are_texts_of_their_type() -> None:
    for kind, text, key in (
        (pa.string(), "", ""),
        (pa.bool_(), "true", True),
        (pa.decimal128(4, 2), "1.5", Decimal("1.50")),
        (pa.date32(), "2024-01-02", 19_724),
        (MOMENT, "1970-01-01 00:00:01", 1_000_000),
        (pa.binary(), "AA==", b"\0"),
    ):
        assert others(spec("json", {"m": pa.map_(kind, pa.int8())}), {f'{{"m":{{"{text}":1}}}}': ([(key, 1)],)}) == GOOD
    nan = '{"m":{"NaN":1,"NaN":2}}'
    assert (
        others(spec("json", {"m": pa.map_(pa.float64(), pa.int8())}), {nan: "a key of m appears twice, at byte 5"})
        == {}
    )


def test_a_variant_is_strict_json_as_it_was_written() -> None:
    values = ("1.10", '"x\\u0041"', "[ 1, null ]", '{ "b": {"c": 1.5E-7} }', "true", "9" * 38)
    form = spec("json", {"v": VARIANT}, options={"allowComments": "true", "allowNonNumericNumbers": "true"})
    expected: dict[str, Any] = {f'{{"v": {text} }}': (text,) for text in values}
    expected |= {
        '{"v":null}': (None,),
        '{"v":{"a":1,"a":2}}': "a name within v appears twice, at byte 5",
        '{"v":[{"b":[{"a":1,"\\u0061":2}]}]}': "a name within v appears twice, at byte 12",
        '{"v":NaN}': "the text is not JSON, at byte 5",
        '{"v":[1,-INF]}': "the text is not JSON, at byte 8",
        "{\"v\":'x'}": "the text is not JSON, at byte 5",
        '{"v":[1,/* x */2]}': "the text is not JSON, at byte 8",
        '{"v":{"a":1E400}}': "a number within v has more digits than a VARIANT can have, at byte 10",
        '{"v":1e-400}': "a number within v has more digits than a VARIANT can have, at byte 5",
        '{"v":9007199254740993e0}': "a number within v has more digits than a VARIANT can have, at byte 5",
        f'{{"v":{"9" * 39}}}': "a number within v has more digits than a VARIANT can have, at byte 5",
        '{"v":["\\ud83d"]}': "a text has half a surrogate pair, at byte 7",
    }
    assert others(form, expected) == GOOD


def test_what_only_the_options_allow_is_no_variant() -> None:
    form = spec("json", {"v": VARIANT}, options={"allowNumericLeadingZeros": "true"})
    assert others(form, {'{"v":007}': "the text is not JSON, at byte 5", '{"v":7}': ("7",)}) == GOOD


def test_short_lists_of_wide_rows() -> None:
    """A short record is bad if its lists would become more than 1,000,000 values."""
    wide = pa.struct([(f"c{n}", pa.int32()) for n in range(100)])
    form = spec("json", {"l": pa.list_(wide), "m": pa.list_(pa.list_(pa.int8()))})
    many = "the record has more than 1000000 values, at byte "
    assert others(form, {
        '{"l":[' + ",".join(["{}"] * 10_001) + "]}": f"{many}30006",
        '{"m":[' + ",".join(["[1,1]"] * 400_000) + "]}": f"{many}2000008",
    }) == GOOD  # fmt: skip
    canal = spec("canal-json", {f"c{n}": pa.string() for n in range(100)})
    rows = ",".join(["{}"] * 5_001)
    assert read(canal, '{"type":"INSERT","data":[' + rows + "]}") == [f"{many}24"]


def test_names_that_nobody_knows_are_not_shown() -> None:
    form = spec("json", {"m": pa.map_(pa.string(), pa.struct([("a", pa.int8())]))})
    assert others(form, {
        '{"m":{"k":{"secret":1,"secret":2,"a":3}}}': ([("k", {"a": 3})],),
        '{"m":{"k":{"a":1,"a":3}}}': "m.value.a appears twice, at byte 21",
    }) == GOOD  # fmt: skip
    [reason] = read(spec("debezium-json", {"a": pa.int8()}), '{"secret":1,"secret":2}')
    assert "secret" not in reason


def test_not_null_is_for_columns() -> None:
    form = spec("json", {"a": pa.int8(), "s": pa.struct([("x", pa.int8())])}, required=("a", "s"))
    assert others(form, {
        '{"a":1,"s":{}}': (1, {"x": None}),
        '{"s":{}}': "a is NOT NULL but has no value",
        '{"a":null,"s":{}}': "a is NOT NULL but has no value",
        '{"a":1}': "s is NOT NULL but has no value",
        '{"a":"x","s":null}': "the value of a is not of type tinyint, at byte 5",
    }) == GOOD  # fmt: skip


def test_a_reason_never_shows_a_value() -> None:
    secret = "4111111111111111"
    for kind in ALL.values():
        for text in (f'"{secret}x"', f'{{"{secret}":1}}', f'["{secret}"]'):
            found = one(kind, text)[text]
            assert secret not in found or kind == pa.string()
    inner = {"m": pa.map_(pa.int8(), pa.int8()), "v": VARIANT}
    for record in (f'{{"m":{{"{secret}":1}}}}', f'{{"v":{{"{secret}":1,"{secret}":1}}}}', f'{{"{secret}":1}} {secret}'):
        assert secret not in read(spec("json", inner), record)[0]
