"""Protobuf records: the message, and the file that describes it, which format options name as Spark's from_protobuf
does. tubeclient.records reads the records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS: Final = ("descFilePath", "messageName")
_FILE, _MESSAGE = OPTIONS


def described(options: Mapping[str, str]) -> tuple[bytes, str]:
    """The descriptor file's bytes, which tasks get, and the message's name. ConfigurationError: an option is missing,
    or the file cannot be read or has no such message."""
    from tubeclient.records.protobuf_types import message_type

    path, name = options.get(_FILE), options.get(_MESSAGE)
    if not path or not name:
        raise ConfigurationError(
            f"format protobuf needs the format options {_FILE}, a file of protoc --include_imports"
            f" --descriptor_set_out=FILE, and {_MESSAGE}"
        )
    try:
        descriptor = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{_FILE} names the file {path}, which cannot be read: {error.strerror}") from None
    try:
        message_type(descriptor, name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{_FILE} is {path}: {error}") from None
    return descriptor, name


def message_columns(descriptor: bytes, name: str) -> StructType:
    """The columns of a message's fields, all nullable. ConfigurationError: it has none, or itself within."""
    from pyspark.sql.types import StructField, StructType

    from spark_source.read.schema import spark_type
    from tubeclient.records.protobuf_types import columns_of_message, message_type

    columns = columns_of_message(message_type(descriptor, name))
    return StructType([StructField(one.name, spark_type(one.type)) for one in columns])
