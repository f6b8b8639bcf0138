"""Messages that are read and written again: the options of both sides, and the rows between them.

Value, tag, time and attributes of a message are kept. Its partition, its message id and its offset are new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from spark_source.options.settings_file import check_own
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["as_messages", "read_options_of_copies", "write_options_of_copies"]

_READ: Final = {
    "payload": "raw",
    "badMessages": "fail",
    "columns": "topic,value,messageType,messageTime,attributes",
}
"""With other values rows are not whole messages."""
_TIME_ZONE: Final = "messagetimezone"
_OWN_OF_SINK: Final = {
    "masterservers": "to-master-servers",
    "topic": "to-topic",
    _TIME_ZONE: "messageTimeZone in [source]",
}


def read_options_of_copies(options: Mapping[str, str]) -> dict[str, str]:
    """The source's options, so that a row is a message with all that is to be kept. ConfigurationError for options
    that say otherwise."""
    fixed = {name.lower(): name for name in _READ}
    for given, value in options.items():
        name = fixed.get(given.lower())
        if name is not None and value.lower() != _READ[name]:
            raise ConfigurationError(
                f"option {name} is {value}, and a copy of whole messages needs {_READ[name]}; leave it out of [source]"
            )
    return {**{name: value for name, value in options.items() if name.lower() not in fixed}, **_READ}


def write_options_of_copies(
    options: Mapping[str, str], master_servers: str, topic: str | None, read: Mapping[str, str]
) -> dict[str, str]:
    """The sink's options. `topic` None keeps the topics' names. `read` are the source's options: times are written on
    the clock on which they are read, so that their text is kept. Raises ConfigurationError."""
    from spark_source.options.given import parse_given, write_options

    check_own(options, _OWN_OF_SINK)
    zone = {name: value for name, value in read.items() if name.lower() == _TIME_ZONE}
    target = {} if topic is None else {"topic": topic}
    found = {**options, **zone, **target, "masterServers": master_servers}
    if write_options(parse_given(found)).payload != "raw":
        raise ConfigurationError("option payload in [sink] makes packs of records; a copy of whole messages needs raw")
    return found


def as_messages(rows: DataFrame) -> DataFrame:
    """The columns that the sink takes, of a read with `read_options_of_copies`."""
    return rows.selectExpr("topic", "value", "messageType AS tag", "messageTime", "attributes")
