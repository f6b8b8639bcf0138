"""Protobuf's descriptors: the message type of a name, and the columns that it has for Arrow.

A descriptor file is a FileDescriptorSet, which `protoc --include_imports --descriptor_set_out=FILE` writes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from tubeclient.errors import ConfigurationError

TIMESTAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages of one field `value`, which stand for a value that may be missing."""
VALUE: Final = "google.protobuf.Value"
ANY: Final = "google.protobuf.Any"
_JSON: Final = frozenset({VALUE, "google.protobuf.Struct", "google.protobuf.ListValue"})
"""Messages that stand for JSON."""

_F: Final = FieldDescriptor
SIGNED_32: Final = frozenset({_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32})
SIGNED_64: Final = frozenset({_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64})
UNSIGNED_32: Final = frozenset({_F.TYPE_UINT32, _F.TYPE_FIXED32})
UNSIGNED_64: Final = frozenset({_F.TYPE_UINT64, _F.TYPE_FIXED64})
_PLAIN: Final[dict[int, pa.DataType]] = {
    **dict.fromkeys(SIGNED_32, pa.int32()),
    **dict.fromkeys(SIGNED_64 | UNSIGNED_32, pa.int64()),
    **dict.fromkeys(UNSIGNED_64, pa.decimal128(20, 0)),
    _F.TYPE_BOOL: pa.bool_(),
    _F.TYPE_FLOAT: pa.float32(),
    _F.TYPE_DOUBLE: pa.float64(),
    _F.TYPE_STRING: pa.string(),
    _F.TYPE_ENUM: pa.string(),
    _F.TYPE_BYTES: pa.binary(),
}
_TYPE_NAMES: Final[dict[int, str]] = {number: name[5:].lower() for name, number in FieldDescriptorProto.Type.items()}
_HOW: Final = "protoc --include_imports --descriptor_set_out=FILE"
_SHOWN: Final = 10
"""Names in an error."""


@lru_cache(maxsize=16)
def message_type(descriptor: bytes, name: str) -> Descriptor:
    """The message type that a descriptor file has under its full name, or under its own if no other has that.
    ConfigurationError: the file is none, or lacks the message or a file that it imports.
    A descriptor is parsed once."""
    try:
        files = FileDescriptorSet.FromString(descriptor).file
    except DecodeError:
        raise ConfigurationError(f"the file is not a descriptor file; make one with {_HOW}") from None
    there = {file.name for file in files}
    if missing := sorted(imported for file in files for imported in file.dependency if imported not in there):
        raise ConfigurationError(f"the descriptor file lacks {missing[0]}, which it imports; make it with {_HOW}")
    pool = DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
        names = [full for file in files for full in _names(file)]
        found = [name] if name in names else [full for full in names if full.rpartition(".")[2] == name]
        if len(found) == 1:
            return pool.FindMessageTypeByName(found[0])
    except (TypeError, KeyError) as error:
        raise ConfigurationError(f"the descriptor file cannot be used: {error}; make it with {_HOW}") from None
    known = found or [full for full in names if not full.startswith("google.protobuf.")] or ["no message"]
    more = ", ..." if len(known) > _SHOWN else ""
    which = f"has several messages {name}" if found else f"has no message {name!r}"
    raise ConfigurationError(f"the descriptor file {which}; it has {', '.join(known[:_SHOWN])}{more}")


def _names(file: FileDescriptorProto) -> list[str]:
    """The full names of a file's messages, with those within others."""
    found = []
    left = [(file.package, message) for message in file.message_type]
    while left:
        around, message = left.pop(0)
        name = f"{around}.{message.name}" if around else message.name
        found.append(name)
        left += [(name, inner) for inner in message.nested_type if not inner.options.map_entry]
    return found


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether it is a list or a map."""
    return _has_label(field, "is_repeated", FieldDescriptor.LABEL_REPEATED)


def is_required(field: FieldDescriptor) -> bool:
    return _has_label(field, "is_required", FieldDescriptor.LABEL_REQUIRED)


def _has_label(field: Any, name: str, label: int) -> bool:
    """Newer versions of protobuf warn of `label`, and older ones have nothing else."""
    found = getattr(field, name, None)
    return bool(field.label == label if found is None else found)


def entry_of(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """The fields of a map's keys and values; None if it is no map."""
    message = field.message_type
    if message is None or not message.GetOptions().map_entry:
        return None
    return message.fields_by_name["key"], message.fields_by_name["value"]


def type_name(field: FieldDescriptor) -> str:
    """As a .proto file has it."""
    if (entry := entry_of(field)) is not None:
        return f"map<{', '.join(map(type_name, entry))}>"
    named = field.message_type or field.enum_type
    name = _TYPE_NAMES[field.type] if named is None else named.full_name
    return f"repeated {name}" if is_repeated(field) else name


def columns_of_message(message: Descriptor) -> pa.Schema:
    """A column for each field, of the type that takes each value. ConfigurationError: the message has no fields, or
    another one that has itself within."""
    if not message.fields:
        raise ConfigurationError(f"message {message.full_name} has no fields to use as columns")
    return pa.schema(_fields(message, message.name, ()))


def _fields(message: Descriptor, path: str, around: tuple[str, ...]) -> list[pa.Field]:
    if message.full_name in around:
        raise ConfigurationError(
            f"message {message.full_name} contains itself, in {path}; give a schema, with STRING where the rest "
            "should become JSON"
        )
    inner = (*around, message.full_name)
    return [pa.field(field.name, column_type(field, f"{path}.{field.name}", inner)) for field in message.fields]


def column_type(field: FieldDescriptor, path: str = "", around: tuple[str, ...] = ()) -> pa.DataType:
    """The type of a column that takes each value of a field. ConfigurationError as of `columns_of_message`."""
    if (entry := entry_of(field)) is not None:
        return pa.map_(column_type(entry[0]), column_type(entry[1], path, around))
    item = _one_type(field, path, around)
    return pa.list_(item) if is_repeated(field) else item


def _one_type(field: FieldDescriptor, path: str, around: tuple[str, ...]) -> pa.DataType:
    message = field.message_type
    if message is None:
        return _PLAIN[field.type]
    if message.full_name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if message.full_name in WRAPPERS:
        return column_type(message.fields_by_name["value"])
    if message.full_name in _JSON or not message.fields:  # no table has an empty struct
        return pa.string()
    return pa.struct(_fields(message, path, around))
