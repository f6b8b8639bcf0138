"""Maps a frame's columns to parts of a message, by the schema alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType, TimestampType

from tubeclient.errors import ConfigurationError

__all__ = ["SinkColumns", "find_columns"]


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
    "messageType": "rename messageType to tag",
    # The columns of Spark's Kafka sink and source:
    "key": "TubeMQ has no keys",
    "headers": "give them as attributes, a map<string, string>",
    "partition": "rows go to all partitions in turn",
    "timestamp": "rename timestamp to messageTime",
}


def find_columns(schema: StructType, topic: str | None) -> SinkColumns:
    """Return the columns' positions. Names are compared without case, as Spark does by default.

    `topic` is the option. The ConfigurationError names the column that is missing, has a wrong type, is repeated, or is
    unknown.
    """
    names = {name.lower(): name for name in _TYPES}
    hints = {name.lower(): f"; {hint}" for name, hint in _HINTS.items()}
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        name = names.get(field.name.lower())
        if name is None:
            *first, last = _TYPES
            raise ConfigurationError(
                f"column {field.name} cannot be written; select among {', '.join(first)} and"
                f" {last}{hints.get(field.name.lower(), '')}"
            )
        if name in found:
            raise ConfigurationError(
                f"columns {schema.fields[found[name]].name} and {field.name} are the same, because a write compares "
                "names without case; select one of them"
            )
        if not _fits(_TYPES[name], field.dataType):
            raise ConfigurationError(
                f"column {field.name} has the type {field.dataType.simpleString()}; a write takes {_TYPES[name]} there,"
                " so cast it"
            )
        found[name] = number
    if "value" not in found:
        raise ConfigurationError(
            f"a write needs a column value, of type {_BODY}; the columns are {', '.join(schema.fieldNames())}"
        )
    if topic is None and "topic" not in found:
        raise ConfigurationError("there is neither an option topic nor a column topic; give one of them")
    return SinkColumns(
        found["value"], found.get("topic"), found.get("tag"), found.get("attributes"), found.get("messageTime")
    )


def _fits(wanted: str, kind: DataType) -> bool:
    if wanted == _MAP:
        return (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if wanted == _TIME:
        return isinstance(kind, TimestampType)
    return isinstance(kind, StringType) or (wanted == _BODY and isinstance(kind, BinaryType))
