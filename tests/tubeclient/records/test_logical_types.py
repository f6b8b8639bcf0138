"""Values that Debezium writes as numbers and bytes, with the envelope's schema and without it."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

from tests.tubeclient.records.changing import changes, debezium, event, short
from tests.tubeclient.records.reading import LOCAL, MOMENT, VARIANT

DAY = 18_262  # 2020-01-01
SECOND = DAY * 86_400 + 3_723
MICROS = SECOND * 1_000_000
TIME, CONNECT, DATA = "io.debezium.time.", "org.apache.kafka.connect.data.", "io.debezium.data."
NOW = "2020-01-01 01:02:03"


def field(name: str, kind: str, logical: str | None = None, **parameters: Any) -> dict[str, Any]:
    given = {key: str(value) for key, value in parameters.items()}
    return {"field": name, "type": kind, "optional": True, "name": logical, "parameters": given or None}


def enveloped(value: Any, *fields: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "struct", "fields": [*fields], "optional": True, "name": "shop.t.Value"}
    images = [{**row, "field": name} for name in ("before", "after")]
    schema = {"type": "struct", "fields": [*images, {"type": "string", "field": "op"}], "name": "shop.t.Envelope"}
    return {"schema": schema, "payload": event("c", after={"v": value})}


def value(kind: Any, written: Any, *fields: dict[str, Any], **more: Any) -> Any:
    """The column's value, or the reason why there is none."""
    [found] = changes(debezium({"v": kind}, **more), enveloped(written, *fields))
    return found if isinstance(found, str) else found[0]["v"]


def twos_complement(number: int, size: int = 4) -> str:
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def test_dates_and_times() -> None:
    date, second = field("v", "int32", f"{TIME}Date"), field("v", "int64", f"{TIME}Timestamp")
    micro, nano = field("v", "int64", f"{TIME}MicroTimestamp"), field("v", "int64", f"{TIME}NanoTimestamp")
    wanted: list[tuple[Any, Any, dict[str, Any], Any]] = [
        (pa.date32(), DAY, date, DAY),
        (pa.date32(), DAY, field("v", "int32", f"{CONNECT}Date"), DAY),
        (pa.date32(), -719_162, date, -719_162),
        (pa.date32(), -719_163, date, "v is outside the years 1 to 9999"),
        (pa.date32(), 2**31 - 1, date, "v is outside the years 1 to 9999"),
        (pa.string(), DAY, date, "2020-01-01"),
        (pa.int32(), DAY, date, DAY),
        (MOMENT, DAY, date, DAY * 86_400_000_000),
        (MOMENT, SECOND * 1_000 + 4, second, MICROS + 4_000),
        (LOCAL, SECOND * 1_000 + 4, field("v", "int64", f"{CONNECT}Timestamp"), MICROS + 4_000),
        (MOMENT, MICROS + 5, micro, MICROS + 5),
        (LOCAL, MICROS * 1_000 + 5_999, nano, MICROS + 5),
        (LOCAL, -1, micro, -1),
        (pa.int64(), MICROS, micro, MICROS),
        (pa.string(), MICROS, micro, NOW),
        (pa.string(), MICROS + 120_000, micro, f"{NOW}.12"),
        (pa.string(), MICROS * 1_000 + 1, nano, f"{NOW}.000000001"),
        (pa.date32(), DAY * 86_400_000, second, DAY),
        (pa.date32(), SECOND * 1_000, second, "the value of v is not of type date"),
        # PostgreSQL's infinity.
        (MOMENT, 2**63 - 1, micro, "v is outside the years 1 to 9999"),
        (pa.string(), 3_723_004, field("v", "int32", f"{TIME}Time"), "01:02:03.004"),
        (pa.string(), 3_723_000, field("v", "int32", f"{CONNECT}Time"), "01:02:03"),
        (pa.string(), -3_020_399_000_001, field("v", "int64", f"{TIME}MicroTime"), "-838:59:59.000001"),
        (pa.string(), 1, field("v", "int64", f"{TIME}NanoTime"), "00:00:00.000000001"),
        (pa.int64(), 5, field("v", "int64", f"{TIME}MicroTime"), 5),
        (MOMENT, "2020-01-01T01:02:03.5Z", field("v", "string", f"{TIME}ZonedTimestamp"), MICROS + 500_000),
        (pa.string(), "01:02:03Z", field("v", "string", f"{TIME}ZonedTime"), "01:02:03Z"),
        (pa.date32(), "2020-01-01Z", field("v", "string", f"{TIME}IsoDate"), DAY),
        (LOCAL, "2020-01-01T01:02:03Z", field("v", "string", f"{TIME}IsoTimestamp"), MICROS),
        (pa.string(), "01:02:03Z", field("v", "string", f"{TIME}IsoTime"), "01:02:03Z"),
        (pa.int32(), 2020, field("v", "int32", f"{TIME}Year"), 2020),
        (MOMENT, None, micro, None),
        (MOMENT, 1.5, micro, "the value of v is not of type timestamp"),
    ]
    for kind, written, schema, expected in wanted:
        assert value(kind, written, schema) == expected, (kind, written, schema["name"])


def test_time_without_zone() -> None:
    """A time without a zone is read in the configured time zone and ignores time formats."""
    micro = field("v", "int64", f"{TIME}MicroTimestamp")
    shanghai = {"time_zone": "Asia/Shanghai"}
    assert value(MOMENT, MICROS, micro, **shanghai) == MICROS - 8 * 3_600_000_000
    assert value(LOCAL, MICROS, micro, **shanghai) == MICROS
    assert value(MOMENT, MICROS, micro, options={"timestampFormat": "dd.MM.yyyy"}) == MICROS
    iso = field("v", "string", f"{TIME}IsoTimestamp")
    assert value(MOMENT, "2020-01-01T01:02:03Z", iso, **shanghai) == MICROS - 8 * 3_600_000_000
    zoned = field("v", "string", f"{TIME}ZonedTimestamp")
    assert value(MOMENT, "2020-01-01T01:02:03Z", zoned, **shanghai) == MICROS


def test_decimals() -> None:
    two = field("v", "bytes", f"{CONNECT}Decimal", scale=2)
    variable = {"type": "struct", "name": f"{DATA}VariableScaleDecimal", "field": "v", "fields": []}
    kind, unsigned = pa.decimal128(10, 2), field("v", "bytes", f"{CONNECT}Decimal", scale=0)
    no_scale = (
        "v is bytes for a DECIMAL: set the converter's schemas.enable=true, or the connector's"
        " decimal.handling.mode=string"
    )
    wanted: list[tuple[Any, Any, Any, Any]] = [
        (kind, "AfQ=", two, "5.00"),
        (kind, twos_complement(-1234), two, "-12.34"),
        (kind, twos_complement(0), two, "0.00"),
        (pa.string(), twos_complement(-1234), two, "-12.34"),
        (pa.float64(), twos_complement(1250), two, "12.5"),
        (pa.decimal128(10, 1), twos_complement(1230), two, "12.3"),
        # The column's own scale is too small.
        (pa.decimal128(10, 1), twos_complement(1234), two, "the value of v is not of type decimal(10,1)"),
        (kind, twos_complement(10**11, 8), two, "the value of v is not of type decimal(10,2)"),
        (pa.decimal128(10, 0), twos_complement(12), field("v", "bytes", f"{CONNECT}Decimal", scale=-2), "1200"),
        # bigint.unsigned.handling.mode=precise
        (pa.decimal128(20, 0), twos_complement(2**64 - 1, 9), unsigned, str(2**64 - 1)),
        (pa.int64(), twos_complement(7), unsigned, "7"),
        (pa.int64(), twos_complement(2**63, 9), unsigned, "the value of v is not of type bigint"),
        (kind, {"scale": 1, "value": twos_complement(125)}, variable, "12.50"),
        (pa.string(), {"scale": 0, "value": twos_complement(125)}, variable, "125"),
        # The converter's decimal.format=NUMERIC.
        (kind, 12.34, two, "12.34"),
        # Padding that no encoder writes.
        (kind, "AfR=", two, "the value of v is not of type decimal(10,2)"),
        (kind, "AfRA=", two, "the value of v is not of type decimal(10,2)"),
        (kind, "no", two, "the value of v is not of type decimal(10,2)"),
        # A schema without the scale, which every converter writes.
        (kind, "ADA5", field("v", "bytes", f"{CONNECT}Decimal"), no_scale),
        (kind, "ADA5", field("v", "bytes", f"{CONNECT}Decimal", scale="x"), no_scale),
        (kind, "", two, "the value of v is not of type decimal(10,2)"),
    ]
    for column, written, schema, expected in wanted:
        assert str(value(column, written, schema)) == expected, (column, written)
    big = base64.b64encode(b"\x7f" * 401).decode()
    assert value(pa.string(), big, two) == big


def test_bits_and_json() -> None:
    bits = field("v", "bytes", f"{DATA}Bits", length=12)
    assert value(pa.int64(), "AQg=", bits) == 0x801
    assert value(pa.string(), "AQg=", bits) == "100000000001"
    assert value(pa.binary(), "AQg=", bits) == b"\x01\x08"
    json = field("v", "string", f"{DATA}Json")
    assert value(VARIANT, '{"a": [1.50]}', json) == '{"a": [1.50]}'
    assert value(pa.string(), '{"a": 1}', json) == '{"a": 1}'
    for wrong in ("{", '{"a": 1} 2', '{"a": 1, "a": 2}'):
        assert value(VARIANT, wrong, json) == "v is text that is not JSON"
    for name in ("Enum", "EnumSet", "Uuid", "Xml"):
        assert value(pa.string(), "a,b", field("v", "string", f"{DATA}{name}")) == "a,b"


def test_types_within_lists_and_structs() -> None:
    item = {"type": "int32", "name": f"{TIME}Date"}
    dates = {"type": "array", "items": item, "field": "v"}
    assert value(pa.list_(pa.date32()), [DAY, None], dates) == [DAY, None]
    struct = {"type": "struct", "field": "v", "fields": [{**item, "field": "d"}, {"type": "string", "field": "s"}]}
    kind = pa.struct([("d", pa.date32()), ("s", pa.string()), ("n", pa.int64())])
    assert value(kind, {"d": DAY, "s": "x"}, struct) == {"d": DAY, "s": "x", "n": None}
    assert value(pa.list_(pa.date32()), ["x"], dates) == "the value of v[0] is not of type date"


@pytest.mark.parametrize(
    ("kind", "written", "reason"),
    [
        (
            MOMENT,
            MICROS,
            "v is a number for a TIMESTAMP: set the converter's schemas.enable=true, or make the column BIGINT",
        ),
        (
            LOCAL,
            5,
            "v is a number for a TIMESTAMP_NTZ: set the converter's schemas.enable=true, or make the column BIGINT",
        ),
        (pa.date32(), DAY, "v is a number for a DATE: set the converter's schemas.enable=true, or make the column INT"),
        *(
            (
                pa.decimal128(10, 2),
                written,
                "v is bytes for a DECIMAL: set the converter's schemas.enable=true, or the connector's"
                " decimal.handling.mode=string",
            )
            for written in ("AfQ=", "BNI/", {"scale": 1, "value": "AfQ="})
        ),
        (pa.decimal128(5, 2), "99999999", "the value of v is not of type decimal(5,2)"),
        (pa.decimal128(5, 2), "12:30", "the value of v is not of type decimal(5,2)"),
    ],
)
def test_without_a_schema_the_reason_says_what_to_set(kind: pa.DataType, written: Any, reason: str) -> None:
    one = debezium({"v": kind})
    body = event("c", after={"v": written})
    assert changes(one, body, {"schema": None, "payload": body}) == [reason, reason]


def test_a_schema_that_is_none_says_nothing() -> None:
    for schema in ({"fields": 1}, {"fields": [1, {"fields": {}}]}, {"fields": [{"field": "after"}]}, {}):
        [[row]] = changes(debezium({"v": pa.int64()}), {"schema": schema, "payload": event("c", after={"v": 5})})
        assert row["v"] == 5


def test_logical_type_of_another_column_type() -> None:
    """A logical type does not affect the value if it does not fit the column's type."""
    types = [{"field": name, "name": "io.debezium.time.Date"} for name in ("v", "l")]
    whole: dict[str, Any] = {
        "schema": {"fields": [{"field": "after", "fields": types}]},
        "payload": event("c", after={"v": 5, "l": None}),
    }
    columns = {"v": VARIANT, "l": pa.list_(pa.int64())}
    assert short(debezium(columns), whole) == [[("insert", "5", None)]]
    whole["payload"]["after"]["l"] = 5
    assert short(debezium(columns), whole) == ["the value of l is not of type array<bigint>"]
