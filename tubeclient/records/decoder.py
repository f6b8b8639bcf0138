"""Many records at once: Arrow columns of the good ones, and reasons of the bad ones.

The compiled core reads what is usual and good, and declines anything else. The plain code reads what was declined, and
everything where there is no core; so each reason comes from here.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.core import CORE
from tubeclient.errors import ConfigurationError
from tubeclient.records.avro import avro_reader
from tubeclient.records.canal import canal_reader
from tubeclient.records.changes import CHANGE_TYPE
from tubeclient.records.debezium import debezium_reader
from tubeclient.records.fault import BadRecord
from tubeclient.records.fields import csv_reader, kv_reader
from tubeclient.records.json_rows import json_reader
from tubeclient.records.logical_types import types_for_core
from tubeclient.records.spec import BINARY, CHANGES, KINDS, Column, RecordSpec, check_options, columns_of, encoding_of
from tubeclient.records.times import offset_of, tokens_for_core
from tubeclient.records.unavailable import PLACEHOLDER, Unavailable

_MARK: Final = "\ufeff"
_LINE_ENDS: Final = "\r\n"
_SLOT_S: Final = 900
_NULL: Final = "the record is null"
_PATTERNS: Final = {"date": "dateFormat", "timestamp": "timestampFormat", "timestamp_ntz": "timestampNTZFormat"}
_OPTIONS_OF_CORE: Final = (*_PATTERNS.values(), "nullValue", "quote", "kvSeparator", PLACEHOLDER)


class Decoded(NamedTuple):
    """What records are. Both are as long as the records."""

    records: pa.Array
    """A struct of the schema's columns; of changes a list of them with `change`. Null where the record is bad."""
    reasons: pa.StringArray
    """What is wrong; null where the record is good."""


class Decoder:
    """Reads records of one kind. ConfigurationError: a schema or an option that it cannot read.

    >>> decoder = Decoder(RecordSpec(kind="json", schema=pa.schema([("id", pa.int64())])))
    >>> decoder.decode(pa.array([b'{"id": 1}', b'{"id": "x"}']))
    Decoded(records=[{"id": 1}, null], reasons=[null, "the value of id is not of type bigint, at byte 7"])
    """

    type: pa.DataType
    """Of `Decoded.records`. All fields may be null, as a bad record has none."""

    def __init__(self, spec: RecordSpec, *, core: bool = True) -> None:
        if spec.kind not in KINDS:
            raise ConfigurationError(f"records of kind {spec.kind} are not supported; use one of {', '.join(KINDS)}")
        check_options(spec)
        columns = columns_of(spec)
        fields = [pa.field(column.name, column.type) for column in columns]
        self._is_change = spec.kind in CHANGES
        if self._is_change:
            self.type = pa.list_(pa.struct([*fields, pa.field("change", CHANGE_TYPE)]))
            read_changes = debezium_reader if spec.kind == "debezium-json" else canal_reader
            self._read: Callable[[Any], Any] = read_changes(spec)
        else:
            self.type = pa.struct(fields)
            self._read = _reader(spec, columns)
        self._texts = None if spec.kind in BINARY else _Texts(spec)
        self._core = _core_reader(spec, columns) if core else None

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Read records: each is one value. Never fails, whatever the bytes are."""
        if self._core is None or self._texts is None:
            return self._plain(values)
        data, offsets = _buffers(self._texts.in_utf8(values))
        columns, declined = self._core.decode(data, offsets)
        records = pa.record_batch(columns).column(0).cast(self.type)
        if not declined:
            return Decoded(records, pa.nulls(len(values), pa.string()))
        rest = self._plain(values.take(pa.array(declined, pa.int64())))
        # A row that the core declined is null; those of the rest are taken in its place.
        is_declined = pc.is_null(records)
        core, others = _numbers(0, len(records)), _numbers(len(records), len(rest.records))
        both = pa.concat_arrays([records, rest.records])
        reasons = pc.replace_with_mask(pa.nulls(len(values), pa.string()), is_declined, rest.reasons)
        return Decoded(both.take(pc.replace_with_mask(core, is_declined, others)), reasons)

    def _plain(self, values: pa.BinaryArray) -> Decoded:
        rows, reasons = [], []
        for value in values.to_pylist():
            row, reason = self._one(value)
            rows.append(row)
            reasons.append(reason)
        return Decoded(self._array(rows), pa.array(reasons, pa.string()))

    def _one(self, value: bytes | None) -> tuple[Any, str | None]:
        """A record's row, or the reason why it has none."""
        try:
            if self._texts is not None:
                return self._read(self._texts.text(value)), None
            if value is None:
                raise BadRecord(_NULL)
            return self._read(value), None
        except BadRecord as fault:
            if fault.pos is None or value is None or self._texts is None:
                return None, fault.reason
            return None, f"{fault.reason}, at byte {self._texts.byte(value, fault.pos)}"

    def _array(self, rows: Sequence[Any]) -> pa.Array:
        if self._is_change:
            return pa.array(rows, self.type)
        fields = [self.type.field(at) for at in range(self.type.num_fields)]
        arrays = [pa.array([row and row[field.name] for row in rows], field.type) for field in fields]
        is_bad = pa.array([row is None for row in rows], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=is_bad)


class _Texts:
    """Bytes to text, and positions in it back to bytes. ConfigurationError: no encoding."""

    def __init__(self, spec: RecordSpec) -> None:
        self._encoding = encoding_of(spec)
        self._escape = spec.escape
        # A database's log tells the end of a key by a record without a text.
        self._empty_is_read = spec.kind == "debezium-json"
        is_separated = spec.kind in ("csv", "kv")
        self._sheds_ends = not (is_separated and set(spec.separator) & set(_LINE_ENDS))

    def text(self, value: bytes | None) -> str:
        """The record's text without a byte order mark at its beginning and line ends at its end. BadRecord: there is
        none."""
        if value is None and not self._empty_is_read:
            raise BadRecord(_NULL)
        text = self._decoded(value or b"").removeprefix(_MARK)
        if self._sheds_ends and text.endswith(("\r", "\n")):
            shed = text.rstrip(_LINE_ENDS)
            # An escaped line end is a part of the text. The escape before it may be escaped itself.
            escapes = 0 if self._escape is None else len(shed) - len(shed.rstrip(self._escape))
            text = text[: len(shed) + escapes % 2]
        if not text and not self._empty_is_read:
            raise BadRecord("the record is empty")
        return text

    def byte(self, value: bytes, pos: int) -> int:
        """Where the character at `pos` of `text(value)` begins."""
        text = self._decoded(value)
        return len(text[: pos + text.startswith(_MARK)].encode(self._codec(value)))

    def in_utf8(self, values: pa.BinaryArray) -> pa.BinaryArray:
        """The texts in UTF-8, for the core. What is no text is empty, which the core declines."""
        if self._encoding == "UTF-8":
            return values
        return pa.array([self._utf8(value) for value in values.to_pylist()], pa.binary())

    def _utf8(self, value: bytes | None) -> bytes:
        try:
            return self._decoded(value or b"").encode()
        except BadRecord:
            return b""

    def _decoded(self, value: bytes) -> str:
        try:
            return value.decode(self._codec(value))
        except UnicodeDecodeError as error:
            raise BadRecord(f"the bytes are not {self._encoding} text, at byte {error.start}") from None

    def _codec(self, value: bytes) -> str:
        """Java's UTF-16 is big-endian where no mark says otherwise, and Python's is as the machine has it."""
        if self._encoding != "UTF-16":
            return self._encoding
        return "UTF-16LE" if value.startswith(codecs.BOM_UTF16_LE) else "UTF-16BE"


def _reader(spec: RecordSpec, columns: Sequence[Column]) -> Callable[[Any], dict[str, Any]]:
    """How a record is read that is a row: its text, or its bytes."""
    if spec.kind == "avro":
        return avro_reader(spec, columns)
    if spec.kind == "protobuf":
        from tubeclient.records.protobuf import protobuf_reader  # loads much that others do not need

        return protobuf_reader(spec, columns)
    makers = {"json": json_reader, "csv": csv_reader, "kv": kv_reader}
    return makers[spec.kind](spec, columns)


def _core_reader(spec: RecordSpec, columns: Sequence[Column]) -> Any:
    """The core's reader; None where there is no core, or where the spec has what only the plain code reads."""
    if CORE is None or spec.kind in BINARY or not set(spec.options) <= set(_OPTIONS_OF_CORE):
        return None
    more = _rules_of_changes(spec, columns) if spec.kind in CHANGES else _marks_of(spec)
    if more is None:
        return None
    zone = None if spec.time_zone == "UTC" else ZoneInfo(spec.time_zone)
    return CORE.RecordReader(
        spec.kind,
        [_field_of(column, is_change=spec.kind in CHANGES) for column in columns],
        {of: tokens_for_core(spec.options[name], name) for of, name in _PATTERNS.items() if name in spec.options},
        None if zone is None else lambda slot: _offset_of_slot(zone, slot),
        more,
    )


def _field_of(column: Column, *, is_change: bool) -> tuple[str, bool, str, tuple[int, ...], tuple[Any, ...]]:
    """A column as the core is told. What must be there in changes is not for the column to say."""
    parts = tuple(_field_of(part, is_change=is_change) for part in column.parts)
    return column.name, column.required and not is_change, column.kind, column.size, parts


def _marks_of(spec: RecordSpec) -> dict[str, Any] | None:
    """The characters of csv and kv as the core is told; None if one is not of ASCII."""
    marks = {
        "separator": spec.separator,
        "kv_separator": spec.kv_separator,
        "quote": spec.options.get("quote", '"') if spec.has_quotes else None,
        "escape": spec.escape,
    }
    if not all(mark is None or (len(mark) == 1 and mark.isascii()) for mark in marks.values()):
        return None
    return {name: mark and ord(mark) for name, mark in marks.items()} | {"null": spec.options.get("nullValue", "")}


def _rules_of_changes(spec: RecordSpec, columns: Sequence[Column]) -> dict[str, Any]:
    required = [column.name for column in columns if column.required]
    given = spec.options.get(PLACEHOLDER)
    placeholder = Unavailable() if given is None else Unavailable(given)
    own = {"placeholder": placeholder.for_core(), "schemas": types_for_core}
    return {"keys": list(spec.keys), "required": required, **own}


def _offset_of_slot(zone: ZoneInfo, slot: int) -> int | None:
    """A zone's offset in a quarter of an hour of local time; None if it changes there."""
    first, last = (offset_of(zone, slot * _SLOT_S + second) for second in (0, _SLOT_S - 1))
    return first if first == last else None


def _numbers(first: int, count: int) -> pa.Int64Array:
    """Whole numbers, one after the other."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


def _buffers(values: pa.BinaryArray) -> tuple[bytes, bytes]:
    """The values' bytes one behind the other, and where each begins; those of a null are none."""
    values = values.fill_null(b"") if values.null_count else values
    _, of_offsets, of_data = values.buffers()
    if of_data is None or not len(values):
        return b"", bytes(4 * (len(values) + 1))
    offsets = pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, of_offsets], offset=values.offset)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    if first:
        offsets = pc.subtract(offsets, pa.scalar(first, pa.int32()))
    start = 4 * offsets.offset
    return of_data[first:last].to_pybytes(), offsets.buffers()[1][start : start + 4 * len(offsets)].to_pybytes()
