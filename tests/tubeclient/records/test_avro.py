"""Avro's bytes become rows, or are bad."""

from __future__ import annotations

import math
import random
import struct
import tracemalloc
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.records.avro_records import USER, fixed, logical, of, record, user, written, zigzag
from tests.tubeclient.records.reading import GOOD, others, read
from tubeclient.records.decoder import Decoder
from tubeclient.records.json_text import MOST_VALUES
from tubeclient.records.spec import RecordSpec

MANY: Final = f"the record has more than {MOST_VALUES} values"
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 to 9999."""


def number(value: int) -> bytes:
    """In base 128, as a number of Avro is behind its zigzag."""
    return number(value >> 7).join([bytes([value & 0x7F | 0x80]), b""]) if value > 0x7F else bytes([value])


def text(value: str) -> bytes:
    return zigzag(len(value.encode())) + value.encode()


def test_a_record() -> None:
    good = (1, "x", 1_700_000_000_000_000, "BUY")
    assert others(of(USER), {
        user(1, "x", 1_700_000_000_000, 1, 4, -5): (*good, [4, -5], None),
        user(1, None, 0, 0): (1, None, 0, "NONE", [], None),
        user(-1, "\u4e2d\0"): (-1, "\u4e2d\0", *good[2:], [], None),
        user()[:-1] + b"\x02" + zigzag(5): (*good, [], {"made": 5}),
        user()[:-1] + b"\x02" + zigzag(2**62): "first.made is outside the years 1 to 9999, at byte 13",
        user()[:-1] + b"\x04": "the value of first matches no type of its union, at byte 12",
        user(kind=2): "the value of kind is not a symbol of its enum, at byte 10",
        user() + b"\0": "more bytes follow the record, at byte 13",
        user() + user(): "more bytes follow the record, at byte 13",
        b"": "the record is empty",
        None: "the record is null",
    }) == GOOD  # fmt: skip


def test_a_record_that_ends_too_early() -> None:
    whole = user(300, "abc", 1_700_000_000_000, 1, 4, 500)[:-1] + b"\x02" + zigzag(5_000)
    within = ["id"] + ["name"] * 5 + ["at"] * 6 + ["kind"] + ["counts"] * 5 + ["first"] + ["first.made"] * 2
    ends = range(1, len(whole))
    assert read(of(USER), *(whole[:end] for end in ends)) == [
        f"the bytes end within {name}, at byte {end}" for name, end in zip(within, ends, strict=True)
    ]


def test_whole_numbers() -> None:
    """As many bits as the type has, in as many bytes as those take. Bytes more than a number needs are no fault."""
    small, large = "a number of a has more than 32 bits, at byte 0", "a number of a has more than 64 bits, at byte 0"
    assert others(of("int"), {
        number(2**32 - 1): (-(2**31),),
        number(2**32 - 2): (2**31 - 1,),
        b"\x80\0": (0,),
        b"\x83\x80\x80\x80\0": (-2,),
        number(2**32): small,
        number(2**35 - 1): small,
        b"\x80\x80\x80\x80\x80\0": small,
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80": small,
        b"\x80\x80": "the bytes end within a, at byte 2",
    }) == GOOD  # fmt: skip
    assert others(of("long"), {
        number(2**64 - 1): (-(2**63),),
        number(2**64 - 2): (2**63 - 1,),
        b"\x80" * 9 + b"\0": (0,),
        number(2**64): large,
        number(2**70 - 1): large,
        b"\x80" * 10 + b"\0": large,
        b"\xff" * 1_000: large,
        b"\x80" * 9: "the bytes end within a, at byte 9",
    }) == GOOD  # fmt: skip


def test_booleans_and_fractions() -> None:
    assert others(of("boolean"), {
        b"\0": (False,),
        b"\1": (True,),
        **dict.fromkeys((b"\2", b"\xff"), "the value of a is not of type boolean, at byte 0"),
    }) == GOOD  # fmt: skip
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    for kind, layout in (("float", "<f"), ("double", "<d")):
        values = (-0.0, math.inf, -math.inf, math.nan, tenth)
        expected: dict[Any, Any] = {struct.pack(layout, value): (value,) for value in values}
        assert others(of(kind), {**expected, b"\0\0\0": "the bytes end within a, at byte 3"}) == GOOD
    assert read(of("double"), b"\1" + bytes(7), b"\0" * 4) == [(5e-324,), "the bytes end within a, at byte 4"]


def test_texts_and_bytes() -> None:
    cut, negative = "the bytes end within a, at byte ", "the length of a is negative, at byte 0"
    bad = "the bytes of a are not UTF-8 text, at byte 0"
    both: dict[Any, Any] = {
        b"\4a": f"{cut}2",
        zigzag(2**40) + b"a": f"{cut}7",
        zigzag(2**63 - 1) + b"a": f"{cut}11",
        b"\1abc": negative,
        b"\5abc": negative,
        zigzag(-(2**62)): negative,
    }
    assert others(of("string"), {
        **both,
        text("\0\x7f\u20ac\U0001f600"): ("\0\x7f\u20ac\U0001f600",),
        b"\0": ("",),
        b"\2\xff": bad,
        b"\6\xed\xa0\x80": bad,  # half a surrogate pair
        b"\4\xc0\x80": bad,  # U+0000 as Java has it
        b"\4\xe2\x82": bad,
    }) == GOOD  # fmt: skip
    assert others(of("bytes"), {**both, b"\4\xff\0": (b"\xff\0",), b"\0": (b"",)}) == GOOD
    assert others(of(fixed(2), fixed(0, "N")), {b"\xff\0": (b"\xff\0", b""), b"\xff": f"{cut}1"}) == GOOD


def test_raw_logical_types() -> None:
    """UUIDs, durations, and times of day come as the text, bytes, or numbers in the record."""
    own = uuid.UUID(int=7)
    one = of(logical("string", "uuid"), fixed(16, logicalType="uuid"), fixed(12, "D", logicalType="duration"))
    months = struct.pack("<3I", 1, 2, 3)
    assert others(one, {text(str(own)) + own.bytes + months: (str(own), own.bytes, months)}) == GOOD
    one = of(logical("int", "time-millis"), logical("long", "time-micros"), logical("long", "timestamp-nanos"))
    assert others(one, {zigzag(-1) + zigzag(2**62) + zigzag(5): (-1, 2**62, 5)}) == GOOD


def test_times() -> None:
    far = "a is outside the years 1 to 9999, at byte 0"
    days = (FIRST // 86_400, LAST // 86_400)
    one = of(logical("int", "date"))
    assert read(one, *map(zigzag, (*days, -1, days[0] - 1, days[1] + 1, 2**31 - 1))) == [
        *((day,) for day in (*days, -1)),
        *[far] * 3,
    ]
    assert read(one, zigzag(2**31)) == ["a number of a has more than 32 bits, at byte 0"]
    for name, unit in (("millis", 1_000), ("micros", 1)):
        for local in ("", "local-"):
            one = of(logical("long", f"{local}timestamp-{name}"))
            first, last = FIRST * 1_000_000 // unit, (LAST + 1) * 1_000_000 // unit - 1
            assert read(one, *map(zigzag, (first, last, -1, 3, first - 1, last + 1, 2**63 - 1, -(2**63)))) == [
                *((found * unit,) for found in (first, last, -1, 3)),
                *[far] * 4,
            ]
    inner = of({"type": "array", "items": {"type": "map", "values": logical("int", "date")}})
    path = "a[1].value is outside the years 1 to 9999, at byte 5"
    assert read(inner, b"\4\0\2" + text("k") + zigzag(2**31 - 1) + b"\0\0") == [path]


def test_decimals() -> None:
    misfit = "the value of a is not of type decimal(3,1), at byte 0"
    kind: dict[str, Any] = {"logicalType": "decimal", "precision": 3, "scale": 1}
    expected: dict[bytes, Any] = {
        b"\xff": (Decimal("-0.1"),),
        b"\0\0\x01": (Decimal("0.1"),),
        b"\0": (Decimal("0.0"),),
        b"\x03\xe7": (Decimal("99.9"),),
        b"\xfc\x19": (Decimal("-99.9"),),
        b"\x03\xe8": misfit,
        b"\xfc\x18": misfit,
        b"": misfit,
        bytes([127]) * 3_000_000: misfit,
    }
    one = of({"type": "bytes", **kind})
    assert others(one, {zigzag(len(data)) + data: value for data, value in expected.items()}) == GOOD
    assert read(of(fixed(2, **kind)), b"\xff\xff", b"\x03\xe8", b"\0") == [
        (Decimal("-0.1"),),
        misfit,
        "the bytes end within a, at byte 1",
    ]
    most = 10**38 - 1
    for scale in (0, 20, 38):
        wide = of(fixed(16, logicalType="decimal", precision=38, scale=scale))
        assert read(wide, *(n.to_bytes(16, signed=True) for n in (most, -most))) == [
            (Decimal((int(n < 0), (9,) * 38, -scale)),) for n in (most, -most)
        ]


def test_unions() -> None:
    none = "the value of a matches no type of its union, at byte 0"
    assert others(of(["null", "int"]), {
        b"\0": (None,),
        b"\2\4": (2,),
        b"\4\4": none,
        b"\1\4": none,  # -1
        b"\2": "the bytes end within a, at byte 1",
    }) == GOOD  # fmt: skip
    assert others(of(["int", "null"]), {b"\2": (None,), b"\0\4": (2,)}) == GOOD
    assert others(of(["int"]), {b"\0\4": (2,), b"\2\4": none}) == GOOD
    assert others(of([logical("int", "date"), "null", "long"]), {
        b"\0" + zigzag(2**31 - 1): (2**31 - 1,),
        b"\0" + zigzag(2**31): "a number of a has more than 32 bits, at byte 0",
        b"\4" + zigzag(2**62): (2**62,),
        b"\2": (None,),
    }) == GOOD  # fmt: skip
    tenth = struct.pack("<f", 0.1)
    assert read(of(["double", "float"]), b"\2" + tenth, b"\0" + struct.pack("<d", 0.1)) == [
        struct.unpack("<f", tenth),
        (0.1,),
    ]
    one = of(["string", "null", record("int", name="Q"), "boolean"])
    assert others(one, {
        b"\0" + text("x"): ({"member0": "x", "member1": None, "member2": None},),
        b"\2": (None,),
        b"\4\6": ({"member0": None, "member1": {"a": 3}, "member2": None},),
        b"\6\1": ({"member0": None, "member1": None, "member2": True},),
        b"\6\2": "the value of a.member2 is not of type boolean, at byte 1",
        b"\4": "the bytes end within a.member1.a, at byte 1",
        b"\x08": none,
    }) == GOOD  # fmt: skip
    stable = of(["null", "int", fixed(1, "x.F")], enableStableIdentifiersForUnionType="true")
    assert read(stable, b"\4x") == [({"member_int": None, "member_F": b"x"},)]


def test_lists() -> None:
    size = "a block of a does not have the size that it states, at byte 0"
    assert others(of({"type": "array", "items": "int"}), {
        b"\0": ([],),
        b"\4\2\4\0": ([1, 2],),
        b"\2\2\2\4\0": ([1, 2],),
        b"\3\4\2\4\0": ([1, 2],),  # two items, of two bytes
        b"\1\2\2\2\4\0": ([1, 2],),
        b"\3\2\2\4\0": size,
        b"\3\6\2\4\0": size,
        b"\3\3\2\4\0": size,
        b"\3" + zigzag(2**63 - 1) + b"\2\4\0": size,
        b"\4\2\xff\xff\xff\xff\x7f": "a number of a[1] has more than 32 bits, at byte 2",
        b"\4\2\4": "the bytes end within a, at byte 3",
        b"\4\2": "the bytes end within a, at byte 2",
    }) == GOOD  # fmt: skip
    deep = of({"type": "array", "items": {"type": "array", "items": record("int", "boolean", name="Q")}})
    assert others(deep, {
        b"\2\4\2\1\4\0\0\0": ([[{"a": 1, "b": True}, {"a": 2, "b": False}]],),
        b"\4\0\4\2\1\4\5\0\0": "the value of a[1][1].b is not of type boolean, at byte 6",
        b"\4\0\4\2\1\4": "the bytes end within a[1][1].b, at byte 6",
    }) == GOOD  # fmt: skip


def test_maps() -> None:
    one = of({"type": "map", "values": ["null", record("string", name="Q")]})
    b_a = text("b") + b"\0" + text("a") + b"\2" + text("x")
    assert others(one, {
        b"\0": ([],),
        b"\4" + b_a + b"\0": ([("b", None), ("a", {"a": "x"})],),
        b"\3" + zigzag(len(b_a)) + b_a + b"\0": ([("b", None), ("a", {"a": "x"})],),
        b"\4" + text("a") + b"\0" + text("a") + b"\0\0": "a key of a appears twice, at byte 0",
        b"\2" + text("a") + b"\0\2" + text("a") + b"\0\0": "a key of a appears twice, at byte 0",
        b"\2\2\xff\0\0": "the bytes of a.key are not UTF-8 text, at byte 1",
        b"\2" + text("k") + b"\2\2\xff\0": "the bytes of a.value.a are not UTF-8 text, at byte 4",
        b"\2" + text("k") + b"\4": "the value of a.value matches no type of its union, at byte 3",
        b"\2" + text("k"): "the bytes end within a.value, at byte 3",
    }) == GOOD  # fmt: skip


def test_a_record_has_a_bound() -> None:
    """Items of no bytes, and lists of rows with many columns of which each is one byte; before anything is made."""
    wide = record(*["int"] * 20, name="W")
    most = MOST_VALUES // 20
    cases: list[tuple[Any, bytes, Any]] = [
        (fixed(0), zigzag(2**40) + b"\0", MANY),
        (fixed(0), zigzag(-(2**63)) + b"\0\0", MANY),
        (fixed(0), zigzag(MOST_VALUES) + b"\0", MOST_VALUES),
        (fixed(0), zigzag(MOST_VALUES) + b"\2\0", MANY),
        (record(fixed(0), name="E"), zigzag(2**40) + b"\0", MANY),
        ("int", zigzag(2**40), MANY),
        ("int", zigzag(900_000), "the bytes end within a, at byte 3"),
        (["null", wide], zigzag(most) + bytes(most) + b"\0", most),
        (["null", wide], zigzag(most + 1) + bytes(most + 1) + b"\0", MANY),
        (["int", "string", wide], zigzag(MOST_VALUES // 22 + 1), MANY),
        ({"type": "array", "items": wide}, zigzag(most) + bytes(most) + b"\0", most),
        ({"type": "array", "items": "int"}, b"\2" + zigzag(MOST_VALUES), MANY),
    ]
    for items, data, expected in cases:
        one = of({"type": "array", "items": items})
        [found] = read(one, data) if isinstance(expected, str) else [len(read(one, data)[0][0])]
        assert found == expected
    maps = of({"type": "map", "values": wide})
    most = MOST_VALUES // 21
    cut = "the bytes end within a.key, at byte 3"
    assert read(maps, zigzag(most + 1), zigzag(most), zigzag(most)) == [MANY, cut, cut]
    both = of({"type": "array", "items": fixed(0)}, {"type": "array", "items": "F"})
    half = zigzag(MOST_VALUES // 2)
    assert [len(part) for part in read(both, half + b"\0" + half + b"\0")[0]] == [MOST_VALUES // 2] * 2
    assert read(both, half + b"\0" + zigzag(MOST_VALUES // 2 + 1) + b"\0") == [MANY]


def test_what_a_record_names_is_not_reserved() -> None:
    decoder = Decoder(of("string", {"type": "array", "items": "bytes"}))
    values = pa.array([zigzag(2**40) + b"x", b"\0" + zigzag(2**40), b"\0\2" + zigzag(2**31)])
    tracemalloc.start()
    assert decoder.decode(values).records.null_count == 3
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_headers_are_named_and_not_read() -> None:
    one = of(USER)
    registry, single = "a schema registry's header", "a header of Avro's single-object encoding"
    assert others(one, {
        b"\0\0\0\0\7" + user(): f"the record has {registry}, which is not supported",
        b"\xc3\x01" + bytes(8) + user(): f"the record has {single}, which is not supported",
        b"Obj\x01" + user(): "the record has the header of an Avro file, which is not supported",
        # A good record may begin so.
        user(0): (0, "x", 1_700_000_000_000_000, "BUY", [], None),
        user(-98): (-98, "x", 1_700_000_000_000_000, "BUY", [], None),
        b"\0\0\0\0\7" + user()[:-1]: "a number of counts[3] has more than 32 bits, at byte 9",
        b"\0": "the bytes end within name, at byte 1",
        b"\xc3\x01": "the bytes end within name, at byte 2",
    }) == GOOD  # fmt: skip


def test_a_key_needs_a_value() -> None:
    one = of(["null", "int"], "int")
    schema = pa.schema([one.schema.field(0).with_nullable(False), one.schema.field(1)])
    keyed = RecordSpec(kind="avro", schema=schema, descriptor=one.descriptor)
    assert read(keyed, b"\2\4\6", b"\0\6") == [(2, 3), "a is NOT NULL but has no value"]


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
ENTRY = record("string", ["null", "long"], name="Entry")
ENTRIES = st.fixed_dictionaries({"a": st.text(max_size=5), "b": st.none() | LONGS})


def entry(value: dict[str, Any]) -> dict[str, Any]:
    return {"a": value["a"], "b": value["b"]}


KINDS: Final[dict[str, tuple[Any, st.SearchStrategy[Any], Callable[[Any], Any]]]] = {
    "a": ("int", INTS, lambda value: value),
    "b": ("long", LONGS, lambda value: value),
    "c": ("boolean", st.booleans(), lambda value: value),
    "d": ("double", st.floats(), lambda value: value),
    "e": ("float", st.floats(width=32), lambda value: value),
    "f": ("string", st.text(max_size=20), lambda value: value),
    "g": ("bytes", st.binary(max_size=20), lambda value: value),
    "h": (fixed(3), st.binary(min_size=3, max_size=3), lambda value: value),
    "i": ({"type": "enum", "name": "En", "symbols": ["X", "Y"]}, st.sampled_from("XY"), lambda value: value),
    "j": (["null", "string"], st.none() | st.text(max_size=9), lambda value: value),
    "k": (
        logical("bytes", "decimal", precision=20, scale=3),
        st.decimals(-(10**16), 10**16, places=3),
        lambda value: value.quantize(Decimal("0.001")) + 0,
    ),
    "l": (
        fixed(9, "G", logicalType="decimal", precision=20, scale=3),
        st.decimals(-(10**16), 10**16, places=3),
        lambda value: value.quantize(Decimal("0.001")) + 0,
    ),
    "m": (logical("int", "date"), st.dates(), lambda value: (value - date(1970, 1, 1)).days),
    "n": (
        logical("long", "timestamp-micros"),
        st.datetimes(timezones=st.just(UTC)),
        lambda value: (value - EPOCH) // timedelta(microseconds=1),
    ),
    "o": (
        logical("long", "local-timestamp-micros"),
        st.datetimes(),
        lambda value: (value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1),
    ),
    "p": (
        {"type": "array", "items": ENTRY},
        st.lists(ENTRIES, max_size=4),
        lambda value: [*map(entry, value)],
    ),
    "q": (
        {"type": "map", "values": "int"},
        st.dictionaries(st.text(max_size=5), INTS, max_size=4),
        lambda value: [*value.items()],
    ),
    "r": (
        ["null", "long", "string", "Entry"],
        st.none() | LONGS | st.text(max_size=5) | ENTRIES,
        lambda value: (
            None
            if value is None
            else {
                "member0": value if isinstance(value, int) else None,
                "member1": value if isinstance(value, str) else None,
                "member2": entry(value) if isinstance(value, dict) else None,
            }
        ),
    ),
}
EVERY: Final = record(*(kind for kind, _, _ in KINDS.values()))


@given(st.fixed_dictionaries({name: values for name, (_, values, _) in KINDS.items()}), st.randoms())
def test_what_fastavro_writes(value: dict[str, Any], rng: random.Random) -> None:
    """And what is cut off, or has a byte of another value, is a row or has a reason."""
    data = written(EVERY, value)
    expected = tuple(convert(value[name]) for name, (_, _, convert) in KINDS.items())
    assert others(of(EVERY), {data: expected}) == GOOD
    place = rng.randrange(len(data))
    other = bytes([*data[:place], data[place] ^ 1 << rng.randrange(8), *data[place + 1 :]])
    cut, longer, _, _ = read(of(EVERY), data[:place], data + b"\0", other, rng.randbytes(rng.randrange(200)))
    assert isinstance(cut, str)
    assert longer == f"more bytes follow the record, at byte {len(data)}"
