"""The core's reader of typed records: what is usual is its own, and no bytes make it fail.

That it gives the same as the plain code is in tests/tubeclient/records/test_core_equals_reference.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ, damaged
from tubeclient.core import CORE
from tubeclient.records import Decoder, RecordSpec

if CORE is None:
    pytest.skip("tubeclient_core is not built here; the plain code has its own tests", allow_module_level=True)

PLAIN = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("small", pa.int8()),
        pa.field("price", pa.float64()),
        pa.field("rate", pa.float32()),
        pa.field("sum", pa.decimal128(38, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("ok", pa.bool_()),
    ]
)
NESTED = pa.schema(
    [
        *PLAIN,
        pa.field("raw", pa.binary()),
        pa.field("any", pa.string(), metadata={b"variant": b"true"}),
        pa.field("many", pa.list_(pa.struct([("a", pa.int16()), ("b", pa.list_(pa.string()))]))),
        pa.field("by_name", pa.map_(pa.string(), pa.decimal128(4, 1))),
    ]
)
JSON = (
    b'{"id":1,"name":"x\\n\\u00fc\\ud83d\\ude00","small":-128,"price":1.5e3,"rate":0.1,"sum":-12.345,"day":"2026-1-2",'
    b'"at":"2026-11-28T10:00:00.123456789+05:30","local":"2026-11-28 10:00","ok":true,"raw":"AAE=","any":{"a":[1,{}]},'
    b'"many":[null,{"a":1,"b":["x",null]},{"c":{"c":[]}}],"by_name":{"k":"1.25","l":null},"more":[{"x":-0}, "y"]}'
)
CSV = b"1,x y,-128,1.5e3, 0.1,-12.345,2026-1-2,2026-11-28 10:00:00Z,2026-11-28 10:00,TRUE"
MARKS = {"separator": ord(","), "kv_separator": ord("="), "quote": None, "escape": None, "null": ""}
NAMES = [name.encode() for name in PLAIN.names]
KV = b"&".join(b"=".join(pair) for pair in zip(NAMES, CSV.split(b","), strict=True))


def declined(kind: str, texts: Sequence[bytes | None], **more: Any) -> tuple[list[int], list[Any]]:
    """The indexes that the core leaves to the plain code, and the rows."""
    spec = RecordSpec(kind=kind, schema=NESTED if kind == "json" else PLAIN, **more)
    decoder = Decoder(spec)
    left: list[int] = []
    plain = decoder._plain

    def seen(values: pa.BinaryArray) -> Any:
        left.extend(list(texts).index(value) for value in values.to_pylist())
        return plain(values)

    decoder._plain = seen  # type: ignore[method-assign]
    records = decoder.decode(pa.array(texts, pa.binary())).records
    records.validate(full=True)
    return left, records.to_pylist()


@pytest.mark.parametrize(
    ("kind", "more", "texts"),
    [
        ("json", {}, [JSON, b' { "id" : 0 }\r\n', b'{"day":null,"id":-9223372036854775808,"name":[1, 2]}']),
        ("json", {"time_zone": "Asia/Kolkata"}, [b'{"id":1,"at":"2026-11-28 10:00:00"}', b'{"id":1,"at":1}']),
        ("csv", {}, [CSV, b"1" + b"," * 9 + b"\r\n", b'1,"x, y",' + b"," * 7, b'"1","x",,,,,,,,"true"']),
        ("csv", {"escape": "!", "separator": "|"}, [CSV.replace(b",", b"|"), b'1|"' + b"|" * 8]),
        ("csv", {"options": {"dateFormat": "yyyyMMdd", "nullValue": "-"}}, [b"1,,-,-,-,-,20260102,,,"]),
        ("kv", {"separator": "&"}, [KV, b"id=+1&&more=a=b&=&name=a=b&", b"id=007"]),
    ],
)
def test_usual_records_use_the_core(kind: str, more: Any, texts: Any) -> None:
    """The core reads usual valid records without the plain code."""
    left, rows = declined(kind, texts, **more)
    assert left == []
    assert rows[0]["id"] == 1


def test_what_is_odd_or_bad_is_left_to_the_plain_code() -> None:
    odd = [None, b"", b"x", b'{"id":null}', b'{"id":1,"id":2}', b'{"id":1}x', b'{"id":NaN}', b'{"id":"\\ud800"}']
    left, _ = declined("json", [JSON, *odd, JSON])
    assert left == list(range(1, 1 + len(odd)))


def test_rescued_fields() -> None:
    """The core rescues fields that no column has unless they need escapes."""
    usual, bad = b'{"x":[1, 2.50] ,"id":1,"":null}', b'{"x":1,"id":"1"}'
    within = [b'{"many": [{"c":1}] ,"id":1}', b'{"id":1,"many":[{"c":1}],"small":"x"}']
    odd = [b'{"id":1,"a\\n":1}', b'{"id":1,"x":"\\ud800"}']
    texts = [usual, bad, b'{"id":2}', *within, *odd, b'{"id":3,"many":[{"a":1}],"y":1,"y":2}']
    left, rows = declined("json", texts, rescue="fields")
    assert left == [1, 4, 5, 6]
    rescued = [row and row["_rescued"] for row in rows]
    assert rescued[:3] == ['{"x":[1, 2.50],"":null}', None, None]
    assert rescued[3:] == ['{"many":[{"c":1}]}', None, '{"a\\n":1}', '{"x":"\\ud800"}', '{"y":1,"y":2}']
    left, rows = declined("kv", [b"id=1&x=y", b'id=1&x="', b'id=1&"=x', b"id=1"], separator="&", rescue="values")
    assert left == [1, 2]
    assert [row["_rescued"] for row in rows] == ['{"x":"y"}', '{"x":"\\""}', '{"\\"":"x"}', None]


def test_a_record_may_be_deep_and_wide_up_to_a_bound() -> None:
    deep = b'{"id":1,"x":' + b"[" * 100_000
    wide = b'{"id":1,"many":[' + b"{}," * 100_000 + b"{}]}"
    left, rows = declined("json", [deep, wide, b'{"id":1,"any":' + b"[" * 60 + b"]" * 60 + b"}"])
    assert left == [0, 1] or left == [0]
    assert rows[0] is None
    assert len(rows[1]["many"]) == 100_001


@pytest.mark.parametrize("kind", ["json", "csv", "kv"])
@given(st.lists(st.binary(max_size=40) | damaged(st.sampled_from([JSON, CSV, KV])), max_size=9))
@FUZZ
def test_no_bytes_make_it_fail(kind: str, texts: list[bytes]) -> None:
    assert CORE is not None
    spec = RecordSpec(kind=kind, schema=NESTED if kind == "json" else PLAIN, time_zone="Europe/Lisbon")
    decoded = Decoder(spec).decode(pa.array(texts, pa.binary()))
    decoded.records.validate(full=True)
    assert [one is None for one in decoded.records.to_pylist()] == decoded.reasons.is_valid().to_pylist()


def test_what_the_callback_raises_ends_all() -> None:
    assert CORE is not None

    def broken(slot: int) -> int:
        raise KeyboardInterrupt

    reader = CORE.RecordReader("csv", [("at", False, "timestamp", (), ())], {}, broken, MARKS)
    with pytest.raises(KeyboardInterrupt):
        reader.decode(b"2026-01-02", b"\0\0\0\0\x0a\0\0\0")


def test_offsets_beyond_the_data_are_an_error() -> None:
    assert CORE is not None
    reader = CORE.RecordReader("csv", [("a", False, "string", (), ())], {}, None, MARKS)
    for offsets in (b"\0\0\0\0\x05\0\0\0", b"\xff\xff\xff\xff\1\0\0\0", b"\2\0\0\0\1\0\0\0"):
        with pytest.raises(ValueError, match="offset"):
            reader.decode(b"abc", offsets)
    for kind, size in (("int", (7,)), ("list", ()), ("text", ())):
        with pytest.raises(ValueError, match=r"kind|parts"):
            CORE.RecordReader("csv", [("a", False, kind, size, ())], {}, None, MARKS)
