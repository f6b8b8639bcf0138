"""Protobuf messages become rows by a descriptor file, or are bad."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.records.protos import OLD, POINT, SHOP, bytes_of, descriptor, number, of, shop, varint
from tests.tubeclient.records.reading import GOOD, MOMENT, VARIANT, others, read
from tubeclient.errors import ConfigurationError
from tubeclient.records.protobuf_types import columns_of_message, message_type
from tubeclient.records.spec import RecordSpec

NO_CLICK, NO_ORDER = "the bytes are not a message shop.Click", "the bytes are not a message shop.Order"
INNER = pa.struct([("x", pa.int32()), ("text", pa.string())])


def clicks(*required: str, **columns: Any) -> RecordSpec:
    return of("shop.Click", columns, required)


def orders(*required: str, **columns: Any) -> RecordSpec:
    return of("shop.Order", {"id": pa.int64(), **columns}, required)


def test_plain_values() -> None:
    columns = {"id": pa.int64(), "name": pa.string(), "ratio": pa.float64(), "part": pa.float32(), "ok": pa.bool_()}
    least = -(1 << 63)
    full = shop(id=least, name="caf\xe9\0", ratio=-0.0, part=0.1, ok=True, raw=b"\xff\0")
    assert others(clicks(**columns, raw=pa.binary()), {
        full: (least, "caf\xe9\0", -0.0, struct.unpack("f", struct.pack("f", 0.1))[0], True, b"\xff\0"),
        shop(ratio=math.nan, part=-math.inf): (0, "", math.nan, -math.inf, False, b""),
        shop(ratio=5e-324): (0, "", 5e-324, 0.0, False, b""),
        None: "the record is null",
    }) == GOOD  # fmt: skip


def test_missing_fields() -> None:
    """proto3's 0 and what is not written are the same bytes. So NOT NULL takes a 0."""
    one = clicks("id", id=pa.int64(), score=pa.int32(), color=pa.string(), point=POINT, counts=pa.list_(pa.int32()))
    assert others(one, {
        b"": (0, None, "NONE", None, []),
        shop(id=0, score=0, point={}): (0, 0, "NONE", {"x": 0, "y": 0}, []),
    }) == GOOD  # fmt: skip
    assert read(clicks("score", score=pa.int32()), b"") == ["score is NOT NULL but has no value"]
    # proto2 says of each field whether it is there; a default that the .proto file names is its value, as for Spark.
    one = orders(name=pa.string(), count=pa.int32(), size=pa.string())
    assert others(one, {
        number(1, 0): (0, None, 7, None),
        shop("shop.Order", id=1, name="", count=0, size="SMALL"): (1, "", 0, "SMALL"),
    }) == GOOD  # fmt: skip


def test_required_fields() -> None:
    missing = "the required field {} is missing"
    one, more = bytes_of(7, b""), bytes_of(8, number(1, 5))
    assert others(orders(), {
        b"": missing.format("id"),
        number(1, 1): (1,),
        number(1, 1) + one: missing.format("inner.x"),  # also where no column reads
        number(1, 1) + more: (1,),
        number(1, 1) + more + bytes_of(8, b""): missing.format("inners[1].x"),
        number(1, 1) + bytes_of(10, bytes_of(1, b"k")): missing.format("named.value.x"),
    }) == GOOD  # fmt: skip


def test_enums() -> None:
    names = clicks(color=pa.string(), colors=pa.list_(pa.string()), shades=pa.map_(pa.string(), pa.string()))
    assert others(names, {
        shop(color=1, colors=[0, -7, 1], shades={"a": -7}): ("RED", ["NONE", "CRIMSON", "RED"], [("a", "CRIMSON")]),
        # Of a newer .proto file: as in ProtoJSON the number, which is no name.
        shop(color=5, colors=[1, -5], shades={"a": 9}): ("5", ["RED", "-5"], [("a", "9")]),
    }) == GOOD  # fmt: skip
    assert read(clicks(color=pa.int8()), shop(color=-7), shop(color=5), shop(color=128)) == [
        (-7,),
        (5,),
        "the value of color is not of type tinyint",
    ]
    # protobuf takes a number that a proto2 enum does not have for an unknown field; in a list the others would stay.
    one = orders(size=pa.string(), sizes=pa.list_(pa.string()), by_name=pa.map_(pa.string(), pa.int32()))
    unknown = "the bytes of {} are not of type {}"
    assert others(one, {
        number(1, 1) + number(4, 1) + number(5, 0): (1, "LARGE", ["SMALL"], []),
        number(1, 1) + number(4, 2): unknown.format("size", "shop.Size"),
        number(1, 1) + number(5, 0) + number(5, 2): unknown.format("sizes", "repeated shop.Size"),
        number(1, 1) + bytes_of(9, number(2, 3)): unknown.format("by_name", "map<string, shop.Size>"),
    }) == GOOD  # fmt: skip


def test_unsigned_numbers() -> None:
    most = (1 << 64) - 1
    big = shop(big=most, wide=(1 << 32) - 1, stamp=1 << 63)
    decimals = {"big": pa.decimal128(20, 0), "wide": pa.int64(), "stamp": pa.decimal128(38, 18)}
    assert read(clicks(**decimals), big) == [(Decimal(most), (1 << 32) - 1, Decimal(f"{1 << 63}.{0:018}"))]
    for name, kind in {"big": "bigint", "stamp": "bigint", "wide": "int"}.items():
        column = {name: pa.int64() if kind == "bigint" else pa.int32()}
        assert read(clicks(**column), big, b"") == [f"the value of {name} is not of type {kind}", (0,)]
    ten = clicks(big=pa.decimal128(4, 2))
    assert read(ten, shop(big=99), shop(big=100)) == [
        (Decimal("99.00"),),
        "the value of big is not of type decimal(4,2)",
    ]


def test_whole_numbers_in_smaller_columns() -> None:
    one = clicks(id=pa.int8(), counts=pa.list_(pa.int16()), spots=pa.map_(pa.int8(), pa.struct([("y", pa.int8())])))
    assert others(one, {
        shop(id=-128, counts=[32767], spots={127: {"x": 999}}): (-128, [32767], [(127, {"y": 0})]),
        shop(id=128): "the value of id is not of type tinyint",
        shop(counts=[0, 32768]): "the value of counts[1] is not of type smallint",
        shop(spots={128: {}}): "the value of spots.key is not of type tinyint",
        shop(spots={1: {"y": 128}}): "the value of spots.value.y is not of type tinyint",
    }) == GOOD  # fmt: skip


def test_oneof() -> None:
    one = clicks(user=pa.string(), device=pa.int64(), spot=POINT)
    assert others(one, {
        b"": (None, None, None),
        shop(user=""): ("", None, None),
        shop(user="x") + shop(device=0): (None, 0, None),  # the last one counts
        shop(spot={"x": 1}) + shop(spot={"y": 2}): (None, None, {"x": 1, "y": 2}),
        shop(spot={"x": 1}) + shop(user="x") + shop(spot={"y": 2}): (None, None, {"x": 0, "y": 2}),
    }) == GOOD  # fmt: skip


def test_lists_maps_and_messages() -> None:
    one = clicks(
        counts=pa.list_(pa.int32()), points=pa.list_(POINT), tags=pa.map_(pa.string(), pa.int64()), point=POINT
    )
    packed, single = bytes_of(14, varint(1) + varint(4)), number(14, 3)
    entry = bytes_of(1, b"k")
    assert others(one, {
        shop(counts=[-1, 2], points=[{"x": 1}, {}], tags={"b": 2, "a": 1}, point={"y": 3}): (
            [-1, 2],
            [{"x": 1, "y": 0}, {"x": 0, "y": 0}],
            [("a", 1), ("b", 2)],
            {"x": 0, "y": 3},
        ),
        packed + single + packed: ([-1, 2, -2, -1, 2], [], [], None),
        bytes_of(16, entry + number(2, 1)) + bytes_of(16, entry + number(2, 5)): ([], [], [("k", 5)], None),
        bytes_of(16, entry): ([], [], [("k", 0)], None),
        bytes_of(24, number(1, 1)) + bytes_of(24, number(2, 2) + number(1, 3)): ([], [], [], {"x": 3, "y": 2}),
    }) == GOOD  # fmt: skip


def test_groups() -> None:
    one = orders(line=pa.struct([("n", pa.int32())]))
    begin, end = varint(6 << 3 | 3), varint(6 << 3 | 4)
    assert others(one, {
        number(1, 1) + begin + number(1, 5) + end: (1, {"n": 5}),
        number(1, 1) + begin + number(1, 5): NO_ORDER,
        number(1, 1) + end: NO_ORDER,
        number(1, 1) + varint(99 << 3 | 3) + number(1, 5) + varint(99 << 3 | 4): (1, None),
    }) == GOOD  # fmt: skip


def test_times() -> None:
    one = clicks(at=MOMENT)
    wrong, far = "the value of at is not of type timestamp", "at is outside the years 1 to 9999"
    assert others(one, {
        b"": (None,),
        shop(at={}): (0,),
        shop(at={"seconds": -1, "nanos": 999_999_999}): (-1,),  # beyond microseconds left out, as in texts
        shop(at={"seconds": 253_402_300_799, "nanos": 999_999_000}): (253_402_300_799_999_999,),
        shop(at={"seconds": 253_402_300_800}): far,
        shop(at={"seconds": -62_135_596_801}): far,
        shop(at={"nanos": -1}): wrong,
        shop(at={"nanos": 1_000_000_000}): wrong,
    }) == GOOD  # fmt: skip
    parts = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
    found = read(clicks(at=parts, took=parts), shop(at={"nanos": 1}, took={"seconds": -3, "nanos": -1}))
    assert found == [({"seconds": 0, "nanos": 1}, {"seconds": -3, "nanos": -1})]


def test_wrappers() -> None:
    one = clicks(maybe=pa.int64(), note=pa.string())
    assert others(one, {
        b"": (None, None),
        shop(maybe={}, note={}): (0, ""),
        shop(maybe={"value": -5}, note={"value": "x"}): (-5, "x"),
        bytes_of(20, bytes_of(1, b"x")): "the bytes of maybe.value are not of type int64",
    }) == GOOD  # fmt: skip
    assert read(clicks(maybe=pa.struct([("value", pa.int64())])), b"", shop(maybe={})) == [(None,), ({"value": 0},)]


def test_messages_as_json() -> None:
    point = {"type_url": "type.googleapis.com/shop.Point", "value": shop("shop.Point", x=1)}
    texts = clicks(
        more=pa.string(), value=VARIANT, any=pa.string(), at=pa.string(), took=VARIANT, points=pa.list_(pa.string())
    )
    record = shop(
        more={"a": [1.5, None, {"b": "\xe9"}]},
        value={"string_value": "x"},
        any=point,
        at={"seconds": 1},
        took={"seconds": 1, "nanos": 500_000_000},
        points=[{"x": 1}],
    )
    [(first, value, of_any, at, took, points)] = read(texts, record)
    assert first == '{"a": [1.5, null, {"b": "\xe9"}]}'
    assert json.loads(of_any) == {"@type": point["type_url"], "x": 1}
    assert (value, at, took, points) == ('"x"', "1970-01-01T00:00:01Z", '"1.500s"', ['{"x": 1}'])
    wrong = "{} cannot be written as JSON"
    assert read(
        texts,
        shop(value={"number_value": math.nan}),
        shop(any={"type_url": "type.googleapis.com/shop.Nobody"}),
        shop(any={**point, "value": b"\xff"}),
        shop(at={"nanos": -1}),
    ) == [wrong.format(name) for name in ("value", "any", "any", "at")]
    inner = orders(inner=pa.string())
    assert others(inner, {
        number(1, 1) + bytes_of(7, number(1, 2)): (1, '{"x": 2}'),
        number(1, 1) + bytes_of(7, number(1, 2) + bytes_of(2, b"\xff")): "the bytes of inner.text are not UTF-8 text",
        number(1, 1) + bytes_of(7, number(1, 2) + number(2, 1)): "the bytes of inner.text are not of type string",
    }) == GOOD  # fmt: skip


def test_contents_of_any() -> None:
    """Values within an Any are checked like values outside it."""

    def record(of_point: bytes, name: str = "shop.Point") -> bytes:
        return bytes_of(23, bytes_of(1, b"type.googleapis.com/" + name.encode()) + bytes_of(2, of_point))

    assert others(clicks(any=pa.string()), {
        record(number(1, 1 << 40 | 5)): TOO_LONG.format("x", "int32"),
        record(bytes_of(1, b"x")): "the bytes of any.x are not of type int32",
        record(bytes_of(1, b"x"), "google.protobuf.Int64Value"): "the bytes of any.value are not of type int64",
        record(record(bytes_of(1, b"x")), "shop.Click"): "the bytes of any.any.x are not of type int32",
    }) == GOOD  # fmt: skip
    many = record(bytes_of(24, b"") * 40_000, "shop.Click")  # 40,000 points of two numbers in 80 KB are not too many
    wide = record(bytes_of(2, b"") * 600_000, "shop.Tree")
    assert read(clicks(any=pa.string()), many)[0][0].endswith('"point": {}}')
    assert read(clicks(any=pa.string()), wide) == ["the record has more than 1000000 values"]


def test_the_names_of_maps_have_an_order_in_json() -> None:
    """Protobuf's own is another one in each process."""
    names = "zeta", "alpha", "mid", "q", "r"
    text = "{" + ", ".join(f'"{name}": 1.0' for name in sorted(names)) + "}"
    assert read(clicks(more=pa.string()), shop(more=dict.fromkeys(names, 1))) == [(text,)]


def test_any_as_it_is() -> None:
    one, any_of = clicks(any=pa.struct([("type_url", pa.string()), ("value", pa.binary())])), {"type_url": "x/y"}
    assert read(one, shop(any={**any_of, "value": b"\xff"})) == [({**any_of, "value": b"\xff"},)]


def test_a_tree_is_read_as_deep_as_its_columns() -> None:
    leaf = {"id": 3}
    record = shop("shop.Tree", id=1, children=[{"id": 2, "children": [leaf]}])
    deep = pa.list_(pa.struct([("id", pa.int32()), ("children", pa.list_(pa.string()))]))
    [(own, children)] = read(of("shop.Tree", {"id": pa.int32(), "children": deep}), record)
    assert (own, children) == (1, [{"id": 2, "children": ['{"id": 3}']}])


def tree(depth: int) -> bytes:
    found = b""
    for _ in range(depth):
        found = bytes_of(2, found)
    return found


def test_depth_has_an_end() -> None:
    one = of("shop.Tree", {"children": pa.list_(pa.string())})
    assert read(one, tree(3)) == [(['{"children": [{"children": [{}]}]}'],)]
    no_tree = "the bytes are not a message shop.Tree"
    assert read(one, tree(5_000), varint(9 << 3 | 3) * 100_000, bytes_of(9, b"x")) == [no_tree, no_tree, ([],)]
    assert read(one, tree(90))[0] != no_tree


def test_keys_that_are_no_utf_8() -> None:
    """In proto2 the parser hands out their bytes; another key's entry is beside it."""
    key, other = bytes_of(1, b"\xff"), bytes_of(1, b"a")
    sizes = number(1, 1) + bytes_of(9, key + number(2, 1)) + bytes_of(9, other + number(2, 1))
    inners = bytes_of(10, key + bytes_of(2, number(1, 1))) + bytes_of(10, other + bytes_of(2, number(1, 1)))
    no_text = "the bytes of {} are not UTF-8 text"
    names = pa.map_(pa.string(), pa.string())
    assert read(orders(by_name=names), sizes) == [no_text.format("by_name.key")]
    assert read(orders(named=pa.map_(pa.string(), pa.string())), number(1, 1) + inners) == [no_text.format("named.key")]
    # Where a required field is missing, all of the message is looked at.
    no_x = number(1, 1) + bytes_of(10, key + bytes_of(2, b"")) + inners
    assert read(orders(named=pa.map_(pa.string(), INNER)), no_x) == [no_text.format("named.key")]


def test_text_that_is_no_utf_8() -> None:
    assert read(clicks(name=pa.string()), bytes_of(2, b"\xff"), bytes_of(2, b"\xc3\xa9")) == [NO_CLICK, ("\xe9",)]
    # proto2 does not check it.
    not_text = "the bytes of {} are not UTF-8 text"
    one = orders(name=pa.string(), words=pa.list_(pa.string()))
    assert others(one, {
        number(1, 1) + bytes_of(2, b"\xff"): not_text.format("name"),
        number(1, 1) + bytes_of(11, b"a") + bytes_of(11, b"\xed\xa0\x80"): not_text.format("words[1]"),
    }) == GOOD  # fmt: skip


def test_bytes_that_are_no_message() -> None:
    whole = shop(id=5, name="abc", points=[{"x": 1}])
    one = clicks(id=pa.int64())
    assert others(one, {
        **{whole[:cut]: NO_CLICK for cut in (1, 3, 4, 6, len(whole) - 1)},
        whole: (5,),
        whole + b"\x00": NO_CLICK,  # no field has the number 0
        whole + b"\x08": NO_CLICK,
        whole + varint(1 << 3 | 6) + b"\x01": NO_CLICK,
        b"\xff" * 11: NO_CLICK,
        # What follows a message is more of it.
        whole + number(1, 6): (6,),
        number(99, 1) + whole + bytes_of(536_870_911, b"x"): (5,),
    }) == GOOD  # fmt: skip


def test_bytes_of_another_type_are_not_left_out() -> None:
    one = clicks(id=pa.int64(), point=POINT, points=pa.list_(POINT))
    words = "the bytes of {} are not of type {}"
    assert others(one, {
        bytes_of(1, b"x"): words.format("id", "int64"),
        number(2, 1): words.format("name", "string"),  # in no column, and the descriptor is another one's
        number(24, 1): words.format("point", "shop.Point"),
        bytes_of(24, bytes_of(1, b"x")): words.format("point.x", "int32"),
        bytes_of(15, b"") + bytes_of(15, bytes_of(2, b"")): words.format("points[1].y", "int32"),
    }) == GOOD  # fmt: skip


def test_a_field_may_have_the_name_of_a_method() -> None:
    assert read(clicks(HasField=pa.int32(), score=pa.int32()), shop(HasField=1), b"") == [(1, None), (0, None)]


@given(st.lists(st.binary(max_size=60) | st.builds(
    lambda field, data: number(field, 3) + bytes_of(field, data), st.integers(1, 31), st.binary(max_size=9)
), max_size=5))  # fmt: skip
def test_any_bytes_are_columns_or_one_reason(records: list[bytes]) -> None:
    for name in ("shop.Click", "shop.Order"):
        file = descriptor(SHOP, OLD)
        own = columns_of_message(message_type(file, name))
        one = RecordSpec(kind="protobuf", schema=own, descriptor=file, message=name)
        read(one, *records, b"".join(records))


def test_protobufs_code_in_python_is_refused() -> None:
    """It passes over values of maps that the compiled code takes for what they are."""
    script = f"""
import pyarrow as pa
from google.protobuf.internal import api_implementation
from tubeclient.records import Decoder, RecordSpec
assert api_implementation.Type() == "python"
schema = pa.schema([("id", pa.int64())])
Decoder(RecordSpec(kind="protobuf", schema=schema, descriptor={descriptor(SHOP, OLD)!r}, message="shop.Click"))
"""
    env = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    found = subprocess.run([sys.executable, "-c", script], env=env, timeout=60, capture_output=True, text=True)
    assert "ConfigurationError: protobuf is running its pure Python code" in found.stderr


PAIRS = pa.map_(pa.string(), pa.int64())
SPOTS = pa.map_(pa.int32(), POINT)
TOO_LONG = "the sender wrote a number into {} that is not of type {}"
JSON, NO_TYPE = "{} cannot be written as JSON", "the bytes of {} are not of type {}"
FIXED, ENTRY = NO_TYPE.format("stamp", "fixed64"), NO_TYPE.format("tags", "map<string, int64>")


@pytest.mark.parametrize(
    ("columns", "record", "wanted"),
    [
        ({"stamp": pa.decimal128(20, 0)}, number(26, 1), FIXED),  # a varint for eight bytes
        ({"at": MOMENT}, bytes_of(18, varint(1 << 3 | 1) + bytes(8)), "the bytes of at.seconds are not of type int64"),
        ({"ok": pa.bool_()}, number(9, 2), (True,)),  # any number but 0 is true
        ({"id": pa.int64()}, b"\x08\xff", NO_CLICK),
        ({"id": pa.int64()}, b"\x08" + b"\xff" * 10 + b"\x01", NO_CLICK),  # no number has eleven bytes
        ({"id": pa.int64()}, varint(1 << 40 | 8) + b"\x01", NO_CLICK),  # nor a tag more than 32 bits
        ({"id": pa.int64()}, number(1, 5) + number(1, 6), (6,)),
        ({"counts": pa.list_(pa.int32())}, bytes_of(14, b"\xff"), NO_CLICK),
        # What the parser would cut to 32 bits.
        ({"score": pa.int32()}, number(3, 1 << 40 | 5), TOO_LONG.format("score", "int32")),
        ({"score": pa.int32()}, number(3, 1 << 32), TOO_LONG.format("score", "int32")),
        ({"score": pa.int32()}, number(3, -(1 << 31)), (-(1 << 31),)),
        # A negative number without its upper bits, or one of an unsigned field.
        ({"score": pa.int32()}, number(3, (1 << 32) - 1), TOO_LONG.format("score", "int32")),
        ({"score": pa.int32()}, number(3, 1 << 31), TOO_LONG.format("score", "int32")),
        ({"score": pa.int32()}, number(3, (1 << 31) - 1), ((1 << 31) - 1,)),
        ({"score": pa.int32()}, number(3, -1), (-1,)),
        ({"color": pa.string()}, number(4, 3_000_000_000), TOO_LONG.format("color", "enum")),
        ({"score": pa.int32()}, number(3, -(1 << 31) - 1), TOO_LONG.format("score", "int32")),
        ({"wide": pa.int64()}, number(6, 1 << 32), TOO_LONG.format("wide", "uint32")),
        ({"wide": pa.int64()}, number(6, (1 << 32) - 1), ((1 << 32) - 1,)),
        ({"color": pa.string()}, number(4, 1 << 40 | 1), TOO_LONG.format("color", "enum")),
        (
            {"counts": pa.list_(pa.int32())},
            bytes_of(14, b"\x02" + varint(1 << 33)),
            TOO_LONG.format("counts", "sint32"),
        ),
        ({"counts": pa.list_(pa.int32())}, number(14, 1 << 33), TOO_LONG.format("counts", "sint32")),
        ({"spot": POINT}, bytes_of(13, number(1, 1 << 33)), TOO_LONG.format("x", "int32")),
        ({"spots": SPOTS}, bytes_of(17, number(1, 1 << 33)), TOO_LONG.format("key", "int32")),
        ({"name": pa.string()}, bytes_of(2, "中文字中文字".encode()), ("中文字中文字",)),
        ({"tags": PAIRS}, bytes_of(16, bytes_of(1, b"a") + number(2, 1) + number(2, 3)), ([("a", 3)],)),
        ({"tags": PAIRS}, bytes_of(16, number(1, 1)), ENTRY),
        ({"tags": PAIRS}, bytes_of(16, number(5, 1)), ENTRY),  # protobuf leaves such a pair out
        ({"tags": PAIRS}, bytes_of(16, bytes_of(1, b"\xff")), NO_CLICK),
        ({"spots": SPOTS}, bytes_of(17, b""), ([(0, {"x": 0, "y": 0})],)),
        ({"name": pa.string()}, bytes_of(2, b"\xed\xa0\x80"), NO_CLICK),  # a surrogate
        ({"name": pa.string()}, bytes_of(2, b"\xc0\x80"), NO_CLICK),  # Java's modified UTF-8
        ({"maybe": pa.int32()}, shop(maybe={"value": 1 << 40}), "the value of maybe is not of type int"),
        ({"took": pa.string()}, shop(took={"seconds": 315_576_000_001}), JSON.format("took")),
        ({"took": pa.string()}, shop(took={"seconds": 1, "nanos": -5}), JSON.format("took")),
        ({"at": pa.string()}, shop(at={"seconds": 253_402_300_800}), JSON.format("at")),
        ({"any": pa.string()}, shop(any={"value": b"x"}), JSON.format("any")),
        ({"any": pa.string()}, shop(any={}), ("{}",)),
        ({"value": VARIANT}, shop(value={}), "value has no kind, but a google.protobuf.Value must have one"),
        (
            {"more": pa.string()},
            bytes_of(22, bytes_of(1, bytes_of(1, b"k") + bytes_of(2, b""))),
            "more.fields.value has no kind, but a google.protobuf.Value must have one",
        ),
    ],
)
def test_what_protobuf_says_may_go_wrong(columns: dict[str, Any], record: bytes, wanted: Any) -> None:
    assert others(clicks(**columns), {record: wanted}) == GOOD


def test_message_names() -> None:
    """A message is found by a unique or full name, and an ambiguous or partial name is refused."""
    file = descriptor(
        'syntax = "proto3"; package a; message M { int32 x = 1; message In { int32 y = 1; } }',
        'syntax = "proto3"; package b; message M { int32 z = 1; }',
    )
    assert [message_type(file, name).full_name for name in ("a.M", "b.M", "In", "a.M.In")] == [
        *("a.M", "b.M", "a.M.In", "a.M.In"),
    ]
    for name, said in (("M", "several messages M; it has a.M, b.M"), ("M.In", "no message 'M.In'"), ("", "no")):
        with pytest.raises(ConfigurationError, match=said):
            message_type(file, name)
    assert message_type(file, "a.M") is message_type(bytes(bytearray(file)), "a.M")  # parsed once
