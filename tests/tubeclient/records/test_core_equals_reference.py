"""The compiled core and the plain code give the same records and reasons for any bytes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from tests.tubeclient.records.changing import MYSQL, PLACEHOLDER, ROW, canal, debezium, event, message
from tests.tubeclient.records.generated import CASES, Case
from tests.tubeclient.records.generated_changes import any_changes_cases, changes_cases
from tests.tubeclient.records.reading import LOCAL, MOMENT, VARIANT, plain, same, spec
from tubeclient.core import CORE
from tubeclient.records.decoder import Decoder
from tubeclient.records.spec import RecordSpec

pytestmark = pytest.mark.skipif(CORE is None, reason="needs the compiled core")


def check(one: RecordSpec, records: list[bytes | None]) -> None:
    values = pa.array(records, pa.binary())
    core, reference = Decoder(one).decode(values), Decoder(one, core=False).decode(values)
    core.records.validate(full=True)
    assert core.reasons.to_pylist() == reference.reasons.to_pylist()
    assert core.records.type == reference.records.type
    assert same(plain(core.records), plain(reference.records))


@given(CASES)
def test_generated_records(case: Case) -> None:
    check(case.spec, case.records)


@given(changes_cases())
def test_generated_changes(case: Case) -> None:
    check(case.spec, case.records)


@given(any_changes_cases())
def test_any_bytes_as_changes(case: Case) -> None:
    check(case.spec, case.records)


EDGES: dict[str, list[str]] = {
    "i": ["0", "-0", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.0", "1e2", '"1"', "null"],
    "d": ["1.005", "-1.005", "999.995", "999.994", '"1.25"', "1e2", "1e-400", "0e99999", "1" * 60, '".5"', '"1."'],
    "f": ["3.4028235677973366e38", "3.4028235e38", "1.00000005960464477540", "1.00000005960464477538", "1e-46", "NaN"],
    "g": ["1e400", "1.7976931348623157e308", "4.9e-324", "1e-400", '"INF"', "-INF", "+INF", "-0.0", '"1.5"', "1" * 999],
    "s": [r'"\u0000"', r'"\ud83d\ude00"', r'"\ud83d"', '"é"', "1.10", '{"b": [1 ,2]}', "[]", '""', "true", r'"\/"'],
    "y": ['"AA=="', '"A"', '"AAA"', '"AA==AA=="', '""', '"-_8="', '"AB=="'],
    "t": [
        *(
            '"2024-03-31 02:30"',
            '"2024-10-27 02:30"',
            "0",
            "253402300799",
            "253402300800",
            "1.5",
            '"2024-01-02T03:04Z"',
        ),
        *('"2024-01-02 03:04:05.1234567"', '"0001-01-01"', '"2024-01-02 03:04 Asia/Tokyo"', '"2024-01-02 03:04+18:00"'),
    ],
    "n": ['"2024-03-31 02:30:59.999999999"', '"2024-01-02 03:04Z"', '"0000-12-31"', '"9999-12-31 23:59:59.999999"'],
    "day": ['"2024-02-29"', '"2023-02-29"', '"2024-1-2"', '"2024-01-02 00:00:00"', "19724"],
    "l": ["[]", "[1,null]", '[1,"x"]', "[1.5]", "{}", "[[1]]"],
    "m": ["{}", '{"1":{"a":1}}', '{"1":1}', '{"1":{},"1":{}}', '{"1":{},"+1":{}}', '{"x":{}}', '{"\\u0031":{}}'],
    "v": ['{"a":1,"a":2}', "NaN", "[1, 2 ]", '"\\ud83d"', "1e999", '{"a":{"b":1,"b":2}}', "[/**/]"],
    "x": ["[" * 600 + "]" * 600, "1" * 1_001, '{"a":1,"a":2}', "nul", "01", "[1,]", '"\\x"', "'x'", '"\t"'],
}
COLUMNS: dict[str, Any] = {
    "i": pa.int64(),
    "d": pa.decimal128(5, 2),
    "f": pa.float32(),
    "g": pa.float64(),
    "s": pa.string(),
    "y": pa.binary(),
    "t": MOMENT,
    "n": LOCAL,
    "day": pa.date32(),
    "l": pa.list_(pa.int8()),
    "m": pa.map_(pa.int32(), pa.struct([("a", pa.int16())])),
    "v": VARIANT,
}


@pytest.mark.parametrize(
    ("zone", "rescue"), [("UTC", "none"), ("Europe/Berlin", "fields"), ("Europe/Berlin", "values")]
)
def test_edges(zone: str, rescue: str) -> None:
    records: list[bytes | None] = [
        f'{{ "{name}" :{text}}}'.encode() for name, texts in EDGES.items() for text in (*texts, '"x"', "{}", "")
    ]
    more = [b"", None, b"{}", b"[]", b"{} x", b'{"i":1,"i":2}', b'{"x":1,"x":2,"m":{"1":{"b":0}}}', b'{"x":"\\ud800"}']
    check(spec("json", COLUMNS, time_zone=zone, rescue=rescue), [*records, *more])
    plain_columns = {name: kind for name, kind in COLUMNS.items() if name not in "ylmv"}
    for one in (spec("csv", plain_columns, time_zone=zone), spec("csv", plain_columns, time_zone=zone, escape="\\")):
        lines = [
            ",".join(text.strip('"') if name == own else "" for own in plain_columns)
            for name, texts in EDGES.items()
            for text in texts
        ]
        check(one, [line.encode() for line in lines])
    pairs = [f"{name}={text.strip(chr(34))}" for name, texts in EDGES.items() for text in texts]
    pairs += ["z=1&i=1&=x&z=", 'z="', "z\n=1", "é=\\"]
    check(spec("kv", plain_columns, time_zone=zone, rescue=rescue, separator="&"), [pair.encode() for pair in pairs])


TYPES = [
    {"field": "day", "name": "io.debezium.time.Date"},
    {"field": "at", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "price", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
]
USUAL: list[tuple[RecordSpec, bytes]] = [
    (
        spec(
            "json",
            {"id": pa.int64(), "name": pa.string(), "at": MOMENT, "price": pa.decimal128(10, 2), "ok": pa.bool_()},
        ),
        b'{"id": 17, "name": "caf\xc3\xa9 \\"x\\"", "at":"2024-01-02 03:04:05","price":12.5,"ok":true, "more":[1]}\n',
    ),
    (
        spec(
            "json",
            {"l": pa.list_(pa.float64()), "s": pa.struct([("a", pa.date32())]), "m": pa.map_(pa.string(), LOCAL)},
        ),
        b'{"l":[1.5,null],"s":{"a":"2024-01-02"},"m":{"k":"2024-01-02T03:04:05.123"}}',
    ),
    (spec("json", {"y": pa.binary()}), b'{"y":"AAE="}'),
    (
        spec("json", {"at": MOMENT}, time_zone="Asia/Shanghai", options={"timestampFormat": "yyyyMMddHHmmss"}),
        b'{"at":"20240102030405"}',
    ),
    (spec("csv", {"id": pa.int64(), "name": pa.string(), "at": MOMENT}, separator="|"), b"17|x y|2024-01-02 03:04:05"),
    (spec("csv", {"id": pa.int64(), "name": pa.string()}), b'17,"x, y"'),
    (spec("csv", {"id": pa.int64(), "name": pa.string()}, escape="\\"), b"17,x"),
    (spec("kv", {"id": pa.int64(), "name": pa.string()}, separator="&"), b"id=17&name=x&more=y"),
    *(
        one
        for rescue in ("fields", "values")
        for one in (
            (
                spec("json", {"id": pa.int64(), "s": pa.struct([("a", pa.string())])}, rescue=rescue),
                b'{"x": {"y" : [1, 0.10]} ,"id":17,"s": {"a":[2], "b":{"c":1}} ,"\\u00e9":"\\n","":1e400 ,"x":null}',
            ),
            (spec("json", {"id": pa.int64()}, rescue=rescue), b'{"id":17}'),
            (spec("kv", {"id": pa.int64()}, separator="&", rescue=rescue), b"x=1&id=17&x=&=\xc3\xa9"),
        )
    ),
    *(
        (debezium(keys=("id",)), json.dumps(one).encode())
        for one in (
            event("r", MYSQL, after=ROW),
            event("u", MYSQL, before=ROW, after={**ROW, "name": "y"}),
            {"payload": event("u", MYSQL, after={**ROW, "name": PLACEHOLDER}), "schema": None},
            event("d", {"connector": "postgresql", "name": "s", "lsn": 9, "sequence": '["7","9"]'}, before={"id": 1}),
        )
    ),
    (
        debezium({"day": pa.date32(), "at": LOCAL, "price": pa.decimal128(10, 2)}),
        json.dumps(
            {
                "schema": {"fields": [{"field": name, "fields": TYPES} for name in ("before", "after")]},
                "payload": event("c", MYSQL, after={"day": 19724, "at": 1_700_000_000_123_456, "price": "AfQ="}),
            }
        ).encode(),
    ),
    *(
        (canal(keys=("id",)), json.dumps(one).encode())
        for one in (
            message("INSERT", {"id": "1", "name": "", "price": None}, {"id": "2"}),
            message("UPDATE", {"id": "1", "name": "y", "price": "1.50"}, old=[{"name": "x"}]),
        )
    ),
]


@pytest.mark.parametrize(("one", "record"), USUAL)
def test_the_core_reads_what_is_usual(one: RecordSpec, record: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the tests above compare two decoders, and not one with itself."""
    check(one, [record])
    decoder = Decoder(one)
    monkeypatch.setattr(decoder, "_plain", lambda values: pytest.fail(f"the core declined {values}"))
    assert decoder.decode(pa.array([record], pa.binary())).reasons.to_pylist() == [None]
