"""Records of tests, and what the plain code makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tubeclient.records.decoder import Decoder
from tubeclient.records.spec import RecordSpec

GOOD: dict[Any, Any] = {}
"""Nothing is other than expected."""
MOMENT = pa.timestamp("us", "UTC")
LOCAL = pa.timestamp("us")
VARIANT = pa.field("v", pa.string(), metadata={b"variant": b"true"})


def spec(kind: str, columns: Mapping[str, Any], required: tuple[str, ...] = (), **more: Any) -> RecordSpec:
    """Columns by their names: a type of Arrow's, or a field with metadata."""
    fields = []
    for name, one in columns.items():
        field = one.with_name(name) if isinstance(one, pa.Field) else pa.field(name, one)
        fields.append(field.with_nullable(name not in required))
    return RecordSpec(kind=kind, schema=pa.schema(fields), **more)


def read(one: RecordSpec, *records: str | bytes | None) -> list[Any]:
    """For each record the tuple of its columns, times as whole numbers; or its reason."""
    values = [record.encode() if isinstance(record, str) else record for record in records]
    decoded = Decoder(one, core=False).decode(pa.array(values, pa.binary()))
    decoded.records.validate(full=True)
    assert len(decoded.records) == len(decoded.reasons) == len(values)
    found: list[Any] = []
    for record, reason in zip(plain(decoded.records), decoded.reasons.to_pylist(), strict=True):
        assert (record is None) == (reason is not None)
        found.append(reason if record is None else tuple(record.values()))
    return found


def others(one: RecordSpec, expected: Mapping[Any, Any]) -> dict[Any, Any]:
    """What is made of the keys of `expected` where it differs from the value there."""
    found = read(one, *expected)
    return {
        record: value
        for (record, wanted), value in zip(expected.items(), found, strict=True)
        if not same(value, wanted)
    }


def same(one: Any, other: Any) -> bool:
    """Equal in type and sign too; NaN is the same as NaN."""
    return repr(one) == repr(other)


def plain(array: pa.Array) -> list[Any]:
    """An array's values, with times as whole numbers: Python's own cannot hold some that are no error."""
    found: list[Any] = array.cast(_without_times(array.type)).to_pylist()
    return found


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([one.with_type(_without_times(one.type)) for one in fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_times(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_without_times(kind.key_type), _without_times(kind.item_type))
    return kind
