"""Maps a frame's columns to parts of a message, by the schema alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructField, StructType, TimestampType

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


_FIELDS: Final = {
    "value": "value",
    "topic": "topic",
    "tag": "tag",
    "attributes": "attributes",
    "messagetime": "message_time",
}
_NAMES: Final = "value, topic, tag, attributes and messageTime"
_HINTS: Final = {"messagetype": "; rename messageType to tag", "key": "; TubeMQ has no keys"}


def find_columns(schema: StructType, topic: str | None) -> SinkColumns:
    """Return the columns' positions. Names are compared without case, as Spark does by default.

    `topic` is the option. The ConfigurationError names the column that is missing, has a wrong type, is repeated, or is
    unknown.
    """
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        part = _FIELDS.get(field.name.lower())
        if part is None:
            hint = _HINTS.get(field.name.lower(), "")
            raise ConfigurationError(f"column {field.name} cannot be written; select among {_NAMES}{hint}")
        if part in found:
            raise ConfigurationError(
                f"columns {schema.fields[found[part]].name} and {field.name} are the same, because a write compares "
                "names without case; select one of them"
            )
        _check_type(field)
        found[part] = number
    if "value" not in found:
        raise ConfigurationError(
            f"a write needs a column value, of type binary or string; the columns are {', '.join(schema.fieldNames())}"
        )
    if topic is None and "topic" not in found:
        raise ConfigurationError("there is neither an option topic nor a column topic; give one of them")
    return SinkColumns(**found)


def _check_type(field: StructField) -> None:
    name, kind = field.name.lower(), field.dataType
    wanted = {"attributes": "map<string,string>", "messagetime": "timestamp", "value": "binary or string"}
    if not _fits(name, kind):
        raise ConfigurationError(
            f"column {field.name} has the type {kind.simpleString()}; a write takes "
            f"{wanted.get(name, 'string')} there, so cast it"
        )


def _fits(name: str, kind: DataType) -> bool:
    if name == "attributes":
        return (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if name == "messagetime":
        return isinstance(kind, TimestampType)
    return isinstance(kind, StringType) or (name == "value" and isinstance(kind, BinaryType))
