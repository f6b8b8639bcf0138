"""From Arrow batches to InLong packs: one message for many rows of one topic, group id and stream id.

All rows of a batch are checked before the first is sent. Messages have the tag and the attributes that DataProxy gives
to an InLongMsg (TubeHandler, SimplePackProfile), without its addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from time import time_ns
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.options.sink_options import SinkOptions
from spark_source.write.sink_columns import InlongColumns
from spark_source.write.sink_rows import Limits, Made, bad_row, bytes_of, check_rows
from tubeclient.inlong.attributes import DATA_TIME, GROUP_ID, KEYS_OF_ORIGIN, STREAM_ID, attribute_text, inlong_id
from tubeclient.inlong.blocks import Limits as UnpackLimits
from tubeclient.inlong.column_packs import PackBounds, encode_columns
from tubeclient.inlong.message_objs import attributes_of_pack
from tubeclient.names import topic_name
from tubeclient.producing.outgoing import OutgoingMessage

__all__ = ["PackMaker", "own_attributes"]

_MOST_BYTES: Final = UnpackLimits().max_bytes - (1 << 17)
"""Of a record: readers refuse more for the whole pack, however well it is compressed; the rest is for attributes."""

_BOUNDS: Final = PackBounds(max_records=256, max_bytes=327_680)
"""DataProxy's, of one message: its bytes with attributes, before compression."""

_MICROSECONDS: Final = 1_000
"""Of one millisecond."""


class _Stream(NamedTuple):
    topic: str
    group_id: str
    stream_id: str


class PackMaker:
    """Makes the messages of one task. `limits` are the topics'; `now_ms` is the time of packing."""

    def __init__(
        self,
        columns: InlongColumns,
        options: SinkOptions,
        limits: Limits,
        now_ms: Callable[[], int] = lambda: time_ns() // 1_000_000,
        bounds: PackBounds = _BOUNDS,
    ) -> None:
        self._columns = columns
        self._topic = options.topic
        self._zone = ZoneInfo(options.message_time_zone)
        self._bounds = bounds
        self._limits = limits
        self._now_ms = now_ms
        self.rows = 0
        """How many rows are in packs."""

    def make(self, batch: pa.RecordBatch) -> Made:
        """Return the batch's rows in packs. Rows of one stream keep their order.

        The ConfigurationError for a row that cannot be sent names the row, counted from 0 in the task, and the column.
        """
        made_ms = self._now_ms()
        values = bytes_of(batch.column(self._columns.value))
        check_rows(pc.is_null(values), self.rows, "column value is null; a record has a body")
        check_rows(
            pc.equal(pc.binary_length(values), 0), self.rows, "column value is empty; InLong has no such records"
        )
        check_rows(
            pc.greater(pc.binary_length(values), _MOST_BYTES),
            self.rows,
            f"column value has more than the {_MOST_BYTES} bytes that readers of InLong packs take",
        )
        own = own_attributes(self._times_ms(batch, made_ms), self._column(batch, "record_attributes"), self.rows)
        streams = list(self._streams(batch))
        limits = self._limits({stream.topic for stream, _ in streams})
        made = Made([], [], [])
        for stream, rows in streams:
            self._add(made, stream, rows, values, own, made_ms, limits[stream.topic])
        self.rows += batch.num_rows
        return made

    def _add(
        self, made: Made, stream: _Stream, rows: np.ndarray, values: pa.Array, own: pa.Array, made_ms: int, limit: int
    ) -> None:
        """Add the packs of one stream."""
        message = partial(
            OutgoingMessage.of_each,
            stream.topic,
            tag=stream.stream_id,
            time=datetime.fromtimestamp(made_ms / 1000, self._zone),
            attributes=attributes_of_pack(made_ms),
        )
        common = {GROUP_ID: stream.group_id, STREAM_ID: stream.stream_id}
        [empty] = message([b"-"])
        bounds = self._bounds.within(limit - len(empty.payload) - len(attribute_text(common)))
        if len(rows) < len(values):
            values, own = values.take(pa.array(rows)), own.take(pa.array(rows))
        packs = list(encode_columns(values, own, common, bounds, made_ms=made_ms))
        made.messages.extend(message(pack.body for pack in packs))
        made.first_rows.extend(self.rows + int(rows[pack.first]) for pack in packs)
        made.rows.extend(pack.records for pack in packs)

    def _streams(self, batch: pa.RecordBatch) -> Iterator[tuple[_Stream, np.ndarray]]:
        """Yield the streams, and the rows of each."""
        groups, group_ids = self._named(self._column(batch, "inlong_group_id"), "inlongGroupId", inlong_id)
        streams, stream_ids = self._named(self._column(batch, "inlong_stream_id"), "inlongStreamId", inlong_id)
        if self._topic is not None:
            topics, names = np.zeros_like(groups), [self._topic]
        else:
            topics, names = self._named(self._column(batch, "topic"), "topic", topic_name)
        keys = (topics * len(group_ids) + groups) * len(stream_ids) + streams
        order = np.argsort(keys, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            if len(rows):
                first = rows[0]
                yield _Stream(names[topics[first]], group_ids[groups[first]], stream_ids[streams[first]]), rows

    def _named(self, column: pa.Array, name: str, checked: Callable[[str], str]) -> tuple[np.ndarray, list[str]]:
        """Return a number for each row, and the text of each number."""
        check_rows(pc.is_null(column), self.rows, f"column {name} is null")
        encoded = column.dictionary_encode()
        texts = []
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            try:
                texts.append(checked(text))
            except ValueError as error:
                check_rows(pc.equal(encoded.indices, number), self.rows, f"column {name}: {error}")
        return encoded.indices.to_numpy().astype(np.int64), texts

    def _times_ms(self, batch: pa.RecordBatch, now_ms: int) -> pa.Array:
        column = self._column(batch, "data_time")
        if column is None:
            return pa.array(np.full(batch.num_rows, now_ms))
        times_us = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        times_ms = np.floor_divide(times_us.fill_null(now_ms * _MICROSECONDS).to_numpy(), _MICROSECONDS)
        return pa.array(times_ms)

    def _column(self, batch: pa.RecordBatch, field: str) -> pa.Array:
        """The column of a field of InlongColumns; None if it is missing."""
        number = getattr(self._columns, field)
        return None if number is None else batch.column(number)


_PAIRS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())]))


def own_attributes(times_ms: pa.Int64Array, maps: pa.MapArray | None, first_row: int) -> pa.Array:
    """Return a text of attributes for each record: its time, and those of its map.

    Attributes that say where a record comes from are left out: columns give them. The ConfigurationError for an
    attribute that no parser would return unchanged names the row; `first_row` is the first one's number.
    """
    parts: list[Any] = [f"{DATA_TIME}=", times_ms.cast(pa.string())]
    if maps is not None:
        parts.append(_texts(maps.cast(_PAIRS), first_row))
    return pc.binary_join_element_wise(*parts, "")


def _texts(maps: pa.ListArray, first_row: int) -> pa.Array:
    """For each row `&key=value` as often as it has attributes."""
    pairs, rows = pc.list_flatten(maps), pc.list_parent_indices(maps)
    own = pc.invert(pc.is_in(pairs.field("key"), pa.array(KEYS_OF_ORIGIN, pa.string())))
    pairs, rows = pairs.filter(own), rows.filter(own)
    keys, values = pairs.field("key"), pairs.field("value")
    _check(pc.is_null(values), rows, keys, first_row, "has no value")
    wrong_keys = pc.or_(pc.equal(keys, ""), pc.match_substring_regex(keys, "[=&]"))
    _check(wrong_keys, rows, keys, first_row, "cannot be in a pack: keys are not empty and hold neither '=' nor '&'")
    _check(pc.match_substring(values, "&"), rows, keys, first_row, "cannot be in a pack: its value holds '&'")
    counts = np.bincount(rows.to_numpy(), minlength=len(maps))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    texts = pc.binary_join_element_wise("&", keys, "=", values, "")
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), "")


def _check(wrong: pa.BooleanArray, rows: pa.Array, keys: pa.Array, first_row: int, reason: str) -> None:
    place = pc.index(wrong, True).as_py()
    if place >= 0:
        key = keys[place].as_py()
        raise bad_row(first_row + rows[place].as_py(), f"column recordAttributes: the attribute {key!r} {reason}")
