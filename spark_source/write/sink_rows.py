"""From Arrow batches to messages, one for each row. All rows of a batch are checked before the first is sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from spark_source.write.sink_columns import SinkColumns
from tubeclient.errors import ConfigurationError
from tubeclient.producing.outgoing import OutgoingMessage

__all__ = ["MessageMaker", "bad_row"]


def bad_row(number: int, reason: object) -> ConfigurationError:
    """The error for a row that cannot be sent; `number` counts from 0 in the task."""
    return ConfigurationError(f"row {number} of this task cannot be sent: {reason}")


_MICROSECONDS_PER_MINUTE: Final = 60_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KNOWN_MINUTES: Final = 4_096


class MessageMaker:
    """Makes the messages of one task. `topic` is the option; `time_zone` (IANA) is for `messageTime` on the wire."""

    def __init__(self, columns: SinkColumns, topic: str | None, time_zone: str) -> None:
        self._columns = columns
        self._topic = topic
        self._zone = ZoneInfo(time_zone)
        self._minutes: dict[int, str] = {}
        self.rows = 0
        """How many rows have become messages."""

    def make(self, batch: pa.RecordBatch) -> list[OutgoingMessage]:
        """Return the batch's rows as messages, in order.

        The ConfigurationError for a row that cannot be sent names the row, counted from 0 in the task, and the column.
        """
        columns = self._columns
        column = batch.column(columns.value)
        # Texts as their UTF-8 bytes, without a copy.
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        values = column.to_pylist()
        rows = range(len(values))
        topics = [self._topic] * len(rows) if self._topic is not None else self._column(batch, columns.topic)
        tags = self._column(batch, columns.tag)
        attributes = self._column(batch, columns.attributes)
        times = self._times(batch)
        made = []
        for row in rows:
            try:
                made.append(_message(values[row], topics[row], tags[row], times[row], attributes[row]))
            except ValueError as error:
                raise bad_row(self.rows + row, error) from None
        self.rows += len(rows)
        return made

    def _column(self, batch: pa.RecordBatch, number: int | None) -> list[Any]:
        return [None] * batch.num_rows if number is None else batch.column(number).to_pylist()

    def _times(self, batch: pa.RecordBatch) -> list[str]:
        number = self._columns.message_time
        if number is None:
            return [""] * batch.num_rows
        moments = batch.column(number).cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        return ["" if moment is None else self._minute(moment // _MICROSECONDS_PER_MINUTE) for moment in moments]

    def _minute(self, minute: int) -> str:
        """Return yyyyMMddHHmm in the time zone, from minutes since 1970."""
        text = self._minutes.get(minute)
        if text is None:
            if len(self._minutes) >= _KNOWN_MINUTES:
                self._minutes.clear()
            try:
                moment = (_EPOCH + timedelta(minutes=minute)).astimezone(self._zone)
            except (OverflowError, ValueError):
                raise ConfigurationError("column messageTime is outside of the years 1 to 9999") from None
            text = self._minutes[minute] = f"{moment.year:04}{moment:%m%d%H%M}"
        return text


def _message(
    value: bytes | None, topic: str | None, tag: str | None, time: str, attributes: list[tuple[str, str | None]] | None
) -> OutgoingMessage:
    if value is None:
        raise ValueError("column value is null; TubeMQ has no messages without a body")
    if topic is None or not topic.strip():
        raise ValueError(f"column topic is {'null' if topic is None else 'blank'}, and the option topic is not given")
    pairs: Mapping[str, Any] = dict(attributes or ())
    if None in pairs.values():
        raise ValueError(f"column attributes has no value for the key {next(k for k in pairs if pairs[k] is None)!r}")
    return OutgoingMessage.of(topic, value, tag=tag or "", time=time, attributes=pairs)
