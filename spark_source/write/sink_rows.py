"""From a frame's columns, found by its schema alone, to messages, one for each row. All rows of a batch are checked
before the first is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType, TimestampType

from tubeclient.errors import ConfigurationError
from tubeclient.producing.outgoing import Maker, OutgoingMessage, message_maker

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The columns' positions from 0; None for missing ones."""

    value: int
    topic: int | None = None
    tag: int | None = None
    attributes: int | None = None
    message_time: int | None = None


_TEXT, _MAP, _TIME, _BODY = "string", "map<string,string>", "timestamp", "binary or string"
_TYPES: Final = {"value": _BODY, "topic": _TEXT, "tag": _TEXT, "attributes": _MAP, "messageTime": _TIME}
"""Type by name."""
_HINTS: Final = {
    "messagetype": "; rename messageType to tag",
    # The columns of Spark's Kafka sink and source:
    "key": "; TubeMQ has no keys",
    "headers": "; give them as attributes, a map<string, string>",
    "partition": "; rows go to all partitions in turn",
    "timestamp": "; rename timestamp to messageTime",
}


def find_columns(schema: StructType, topic: str | None) -> SinkColumns:
    """Return the columns' positions. Names are compared without case, as Spark does by default; `topic` is the option.
    The ConfigurationError names the column that is missing, has a wrong type, is repeated, or is unknown."""
    names = {name.lower(): name for name in _TYPES}
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        name = names.get(field.name.lower())
        if name is None:
            raise ConfigurationError(
                f"column {field.name} cannot be written; select among {', '.join(_TYPES)}"
                f"{_HINTS.get(field.name.lower(), '')}"
            )
        if name in found:
            raise ConfigurationError(
                f"columns {schema.fields[found[name]].name} and {field.name} are the same, because a write ignores "
                "case in names; select one of them"
            )
        if not _fits(_TYPES[name], field.dataType):
            raise ConfigurationError(
                f"column {field.name} has the type {field.dataType.simpleString()}; a write needs {_TYPES[name]} "
                "there, so cast it"
            )
        found[name] = number
    if "value" not in found:
        raise ConfigurationError(
            f"a write needs a column value, of type {_BODY}; the columns are {', '.join(schema.fieldNames())}"
        )
    if topic is None and "topic" not in found:
        raise ConfigurationError("there is neither an option topic nor a column topic; add one of them")
    return SinkColumns(*(found.get(name) for name in _TYPES))  # type: ignore[arg-type]


def _fits(wanted: str, kind: DataType) -> bool:
    if wanted == _MAP:
        return isinstance(kind, MapType) and _fits(_TEXT, kind.keyType) and _fits(_TEXT, kind.valueType)
    if wanted == _TIME:
        return isinstance(kind, TimestampType)
    return isinstance(kind, StringType) or (wanted == _BODY and isinstance(kind, BinaryType))


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

    def make(self, batch: pyarrow.RecordBatch) -> list[OutgoingMessage]:
        """Return the batch's rows as messages, in order. The ConfigurationError for a row that cannot be sent names it,
        counted from 0 in the task, and the column."""
        import pyarrow as pa

        columns = self._columns
        column = batch.column(columns.value)
        # Texts as their UTF-8 bytes, without a copy.
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        values = column.to_pylist()
        if column.null_count:
            number = self.rows + values.index(None)
            raise bad_row(number, "column value is null; TubeMQ has no messages without a body")

        def cells(number: int | None) -> list[Any]:
            return [None] * len(values) if number is None else batch.column(number).to_pylist()

        topics = [self._topic] * len(values) if self._topic is not None else cells(columns.topic)
        times = [""] * len(values)
        if columns.message_time is not None:
            moments = batch.column(columns.message_time).cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
            times = ["" if at is None else self._minute(at // _MICROSECONDS_PER_MINUTE) for at in moments]
        made: list[OutgoingMessage] = []
        last: list[Any] = []
        for value, *names in zip(values, topics, cells(columns.tag), times, cells(columns.attributes), strict=True):
            try:
                if names != last:  # rows that follow each other often differ only in their values
                    maker, last = _maker(*names), names
                made.append(maker(value))
            except ValueError as error:
                raise bad_row(self.rows + len(made), error) from None
        self.rows += len(made)
        return made

    def _minute(self, minute: int) -> str:
        """Return yyyyMMddHHmm in the time zone, from minutes since 1970."""
        text = self._minutes.get(minute)
        if text is None:
            if len(self._minutes) >= _KNOWN_MINUTES:
                self._minutes.clear()
            try:
                moment = (_EPOCH + timedelta(minutes=minute)).astimezone(self._zone)
            except (OverflowError, ValueError):
                raise ConfigurationError("column messageTime is outside the years 1 to 9999") from None
            text = self._minutes[minute] = f"{moment.year:04}{moment:%m%d%H%M}"
        return text


def _maker(topic: str | None, tag: str | None, time: str, attributes: list[tuple[str, str | None]] | None) -> Maker:
    if topic is None or not topic.strip():
        raise ValueError(f"column topic is {'null' if topic is None else 'blank'}, and the option topic is not set")
    pairs: Mapping[str, Any] = dict(attributes or ())
    if None in pairs.values():
        raise ValueError(f"column attributes has no value for the key {next(k for k in pairs if pairs[k] is None)!r}")
    return message_maker(topic, tag or "", time, pairs)
