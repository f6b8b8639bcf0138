"""`inlong_records`: InLong's packs in any frame, whatever system carried them, as rows of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from spark_source.read.records import columns_of_records
from spark_source.read.schema import COLUMNS
from spark_source.typed.columns import VALUE
from tubeclient.errors import ConfigurationError
from tubeclient.inlong import RecordDecoder
from tubeclient.wire.message_time import zone_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEW: Final = {
    "inlongGroupId": pa.string(),
    "inlongStreamId": pa.string(),
    "dataTime": pa.timestamp("us", "UTC"),
    "recordIndex": pa.int32(),
    VALUE: pa.binary(),
    "badReason": pa.string(),
}
_ATTRIBUTES: Final = {"headers": "array<struct<key:string,value:binary>>", "attributes": "map<string,string>"}
"""Columns with what a producer attached to messages, and their types. The first that the frame has counts."""


def inlong_records(frame: DataFrame, *, time_zone: str = "UTC") -> DataFrame:
    """Unpack InLong's packs, InLongMsg or MessageObjs, in the binary column `value`: a row for each record.

    The column `headers` (Kafka with includeHeaders) or `attributes` (a map of texts) tells what DataProxy attached to
    messages. Without it, an InLongMsg is recognized by its magic, and MessageObjs stay packed. This call starts no
    Spark job.

    Args:
        frame: A batch or a stream, of Spark's Kafka source or any other.
        time_zone: The time zone of data times that are written as text.

    Returns:
        The frame's other columns, as the pack has them, and these. `inlongGroupId` and `inlongStreamId`. `dataTime`,
        the record's own time. `recordIndex`, its place in the pack, from 0. `value`, its bytes. `badReason`, null in a
        record. A pack that cannot be unpacked is one row, with the reason and the pack. A message that is not InLong's
        is one record without group and stream.

    Raises:
        ConfigurationError: A column has another type, is missing or has the name of a new one, or the time zone is
            unknown.
    """
    schema = frame.schema
    types = {field.name: field.dataType.simpleString() for field in schema}
    if VALUE not in types:
        raise ConfigurationError(f"the frame has no column {VALUE}, which holds the packs; add it")
    for name, wanted in {VALUE: "binary", **_ATTRIBUTES}.items():
        if types.get(name, wanted) != wanted:
            raise ConfigurationError(
                f"the frame's column {name} is {types[name]}; it must be {wanted}. Convert it, or rename it if it is "
                "something else"
            )
    at = schema.names.index(VALUE)
    others = [number for number in range(len(schema)) if number != at]
    new = {name.lower() for name in _NEW}
    if clash := [schema.names[number] for number in others if schema.names[number].lower() in new]:
        raise ConfigurationError(
            f"the frame already has {', '.join(clash)}, which inlong_records adds; rename it, or drop it"
        )
    named = next((schema.names.index(name) for name in _ATTRIBUTES if name in types), None)
    kinds = {column.name: column.kind for column in COLUMNS}
    rows = StructType([*(schema[number] for number in others), *(StructField(name, kinds[name]) for name in _NEW)])
    return frame.mapInArrow(_Unpacking(at, others, named, time_zone).records, rows)


class _Unpacking:
    """Batches of messages to batches of records. Columns are given by their places: `value`, the others, and of these
    the one with the attributes of messages, if any."""

    def __init__(self, value: int, others: Sequence[int], attributes: int | None, time_zone: str) -> None:
        self._value, self._others, self._attributes = value, others, attributes
        self._decoder = RecordDecoder("auto", zone=zone_named(time_zone))

    def records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function of the frame."""
        for batch in batches:
            has_value = pc.is_valid(batch.column(self._value))
            yield from self._unpacked(batch.filter(has_value))
            if without := batch.num_rows - has_value.true_count:  # as Kafka's tombstones
                reasons = pa.repeat("the message has no value", without)
                yield self._rows(batch.filter(pc.invert(has_value)), pa.array(range(without)), {"badReason": reasons})

    def _unpacked(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        values = messages.column(self._value)
        attached: list[Any] = [{}] * messages.num_rows
        if self._attributes is not None:
            attached = messages.column(self._attributes).to_pylist()
        repeated = sum((_sizes(messages.column(place)) for place in self._others), np.zeros(len(values), np.int64))
        for columns in self._decoder.decode(values.to_pylist(), list(map(_texts, attached)), repeated.tolist()):
            yield self._rows(messages, columns.message_numbers, columns_of_records(columns))
            if columns.bad:
                numbers, reasons = zip(*columns.bad, strict=True)
                taken = pa.array(numbers)
                yield self._rows(messages, taken, {VALUE: values.take(taken), "badReason": pa.array(reasons)})

    def _rows(self, messages: pa.RecordBatch, numbers: pa.Array, own: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Rows with what the messages of these numbers have, and columns of their `own`; null where they have none."""
        others = [messages.column(place).take(numbers) for place in self._others]
        new = [own[name].cast(kind) if name in own else pa.nulls(len(numbers), kind) for name, kind in _NEW.items()]
        fields = [messages.schema.field(place) for place in self._others]
        return pa.RecordBatch.from_arrays([*others, *new], schema=pa.schema([*fields, *_NEW.items()]))


def _sizes(column: pa.Array) -> Any:
    """About how many bytes each value takes, as numbers of numpy."""
    if pa.types.is_primitive(column.type):
        return np.full(len(column), column.type.bit_width // 8 + 1)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return np.array([column.slice(number, 1).nbytes for number in range(len(column))], np.int64)


def _texts(attached: Any) -> dict[str, str]:
    """A message's attributes, of a map or of Kafka's headers. As in InLong's own reader the last header of a name
    counts (KafkaSingleTopicFetcher, apache/inlong a6c7a6a670), and bytes that are no text do no harm."""
    if attached and isinstance(attached[0], tuple):
        return {key: text for key, text in attached if text is not None}
    headers = {header["key"]: header["value"] for header in attached or ()}
    return {key: value.decode(errors="replace") for key, value in headers.items() if value is not None}
