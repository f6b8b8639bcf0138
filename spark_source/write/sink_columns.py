"""Maps a frame's columns to parts of a message or record, by the schema alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType, TimestampType

from tubeclient.errors import ConfigurationError

__all__ = ["InlongColumns", "SinkColumns", "find_columns"]


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The columns' positions from 0; None for missing ones."""

    value: int
    topic: int | None = None
    tag: int | None = None
    attributes: int | None = None
    message_time: int | None = None


@dataclass(frozen=True, slots=True)
class InlongColumns:
    """The same with `payload=inlong`."""

    value: int
    inlong_group_id: int
    inlong_stream_id: int
    topic: int | None = None
    data_time: int | None = None
    record_attributes: int | None = None


_TEXT, _MAP, _TIME = "string", "map<string,string>", "timestamp"
_BODY: Final = {"value": "binary or string", "topic": _TEXT}
_OF_MESSAGES: Final = {**_BODY, "tag": _TEXT, "attributes": _MAP, "messageTime": _TIME}
_OF_RECORDS: Final = {
    **_BODY,
    "inlongGroupId": _TEXT,
    "inlongStreamId": _TEXT,
    "dataTime": _TIME,
    "recordAttributes": _MAP,
}
"""Type by name."""
_HINTS: Final = {
    "messageType": "rename messageType to tag",
    # The columns of Spark's Kafka sink and source:
    "key": "TubeMQ has no keys",
    "headers": "give them as attributes, a map<string, string>",
    "partition": "rows go to all partitions in turn",
    "timestamp": "rename timestamp to messageTime",
    **dict.fromkeys(_OF_RECORDS.keys() - _OF_MESSAGES.keys(), "it belongs to payload=inlong"),
}
_RECORD_HINTS: Final = {
    **dict.fromkeys(("tag", "messageType"), "with payload=inlong the stream id is the tag"),
    "messageTime": "with payload=inlong it is the time of packing, and dataTime that of a record",
    "attributes": "a record's own are in recordAttributes",
}


def find_columns(schema: StructType, topic: str | None, payload: str = "raw") -> SinkColumns | InlongColumns:
    """Return the columns' positions: InlongColumns with `inlong`. Names are compared without case, as Spark does by
    default.

    `topic` and `payload` are the options. The ConfigurationError names the column that is missing, has a wrong type, is
    repeated, or is unknown.
    """
    records = payload == "inlong"
    types, hints = (_OF_RECORDS, _RECORD_HINTS) if records else (_OF_MESSAGES, _HINTS)
    found = _positions(schema, types, hints)
    needed = ("value", "inlongGroupId", "inlongStreamId") if records else ("value",)
    for name in needed:
        if name not in found:
            raise ConfigurationError(
                f"a write needs a column {name}, of type {types[name]}; the columns are "
                f"{', '.join(schema.fieldNames())}"
            )
    if topic is None and "topic" not in found:
        raise ConfigurationError("there is neither an option topic nor a column topic; give one of them")
    positions = {_field(name): number for name, number in found.items()}
    return InlongColumns(**positions) if records else SinkColumns(**positions)


def _positions(schema: StructType, types: Mapping[str, str], hints: Mapping[str, str]) -> dict[str, int]:
    """The positions by the names that `types` has."""
    names = {name.lower(): name for name in types}
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        name = names.get(field.name.lower())
        if name is None:
            hint = next((f"; {text}" for key, text in hints.items() if key.lower() == field.name.lower()), "")
            *first, last = types
            raise ConfigurationError(
                f"column {field.name} cannot be written; select among {', '.join(first)} and {last}{hint}"
            )
        if name in found:
            raise ConfigurationError(
                f"columns {schema.fields[found[name]].name} and {field.name} are the same, because a write compares "
                "names without case; select one of them"
            )
        if not _fits(types[name], field.dataType):
            raise ConfigurationError(
                f"column {field.name} has the type {field.dataType.simpleString()}; a write takes {types[name]} there, "
                "so cast it"
            )
        found[name] = number
    return found


def _fits(wanted: str, kind: DataType) -> bool:
    if wanted == _MAP:
        return (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if wanted == _TIME:
        return isinstance(kind, TimestampType)
    return isinstance(kind, StringType) or (wanted == _BODY["value"] and isinstance(kind, BinaryType))


def _field(name: str) -> str:
    """The field of a column: messageTime is message_time."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
