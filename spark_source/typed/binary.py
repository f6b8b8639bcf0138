"""protobuf and Avro: their definitions, checked, and Spark's expressions that read records by them.

Spark has nulls for bytes that it cannot read, and takes no notice of what follows an Avro record. So a definition gets
one field more, which a record has that was read, to its end.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["AVRO_LIMITS", "BINARY_KINDS", "BinaryRecords", "avro_records", "package_of", "protobuf_records"]

BINARY_KINDS: Final = ("protobuf", "avro")
_READ: Final = "tubeclient_read"
_MESSAGE: Final = "TubeclientRecord"
_NUMBERS: Final = range(2**29 - 1, 0, -1)
"""Numbers that a field of protobuf can have; records have the last ones least."""
_SUM_BYTES: Final = 16

_MOST: Final = 20 * 2**20
AVRO_LIMITS: Final = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={_MOST}" for what in ("bytes", "string", "collectionItems")
)
"""Java's options. Avro reserves memory for the lengths that a record names, before it looks whether they are there: by
default gigabytes, for which Spark ends the executor. A message of TubeMQ has 20 MB at most (apache/inlong a6c7a6a670,
TBaseConstants.META_MAX_ALLOWED_MESSAGE_SIZE_MB)."""


class BinaryRecords(NamedTuple):
    """What records are, with the field that is added."""

    kind: str
    """protobuf or avro."""
    name: str
    """The full name of the message or the record."""
    definition: bytes
    """A FileDescriptorSet, or an Avro schema."""
    message: str = ""
    """The name by which Spark finds the message with the field more."""

    def columns(self, spark: SparkSession, options: Mapping[str, str]) -> StructType:
        """The columns that Spark makes of it, all nullable. ConfigurationError if Spark cannot use it, or lacks the
        package for it (JARS_NOT_FOUND)."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        try:
            record = self.record(self.read(F.lit(b""), options)).alias("record")
            found = spark.range(1).select(record).schema["record"].dataType
        except Exception as error:  # Avro's come as Py4J's, which a client of Connect lacks
            if "_NOT_LOADED_" in str(error):
                raise _lacks_package(spark, self.kind) from None
            lines = [line.strip() for line in str(error).strip().split("\n")]
            reason = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
            raise ConfigurationError(f"Spark cannot use {self.name} for {self.kind}: {reason}") from None
        fields = [one for one in found if one.name != _READ] if isinstance(found, StructType) else []
        if not fields:
            raise ConfigurationError(f"{self.name} has no fields, which would be the columns")
        return StructType(fields)

    def read(self, value: Column, options: Mapping[str, str]) -> Column:
        """What Spark makes of the bytes; `record` and `fault` take it."""
        from pyspark.sql import functions as F
        from pyspark.sql.avro.functions import from_avro
        from pyspark.sql.protobuf.functions import from_protobuf

        given = {**options, "mode": "PERMISSIVE"}
        if self.kind == "protobuf":
            return from_protobuf(value, self.message, options=given, binaryDescriptorSet=self.definition)
        given["datetimeRebaseMode"] = "CORRECTED"
        return from_avro(F.concat(value, _sum_of(value)), self.definition.decode(), given)

    def record(self, read: Column) -> Column:
        """The struct of the columns."""
        return read if self.kind == "protobuf" else read["record"]

    def fault(self, value: Column, read: Column) -> Column:
        """What is wrong; null in a good record."""
        from pyspark.sql import functions as F

        # In a message a list is never null: this one is empty, as nobody writes into it.
        is_read = read[_READ].isNotNull() if self.kind == "protobuf" else read[_READ].eqNullSafe(_sum_of(value))
        return F.when(~is_read, f"the bytes are not one {self.kind} record of {self.name}")


def package_of(kind: str | None, spark_version: str) -> str | None:
    """Maven's coordinates of what Spark needs for records of a kind; None if that is nothing."""
    return f"org.apache.spark:spark-{kind}_2.13:{spark_version}" if kind in BINARY_KINDS else None


def _sum_of(value: Column) -> Column:
    """Follows an Avro record. Nobody can write a record that has its own checksum in it, and more behind that."""
    from pyspark.sql import functions as F

    return F.unhex(F.md5(value))


def _lacks_package(spark: SparkSession, kind: str) -> ConfigurationError:
    package = package_of(kind, spark.version) or ""
    there = spark.conf.get("spark.jars.packages", None)
    return ConfigurationError(
        f"Spark lacks the package {package}, which reads {kind}. Start it with spark.jars.packages="
        f"{','.join(filter(None, (there, package)))} (Spark Connect: the server), or lay its jar beside Spark's own",
        condition="JARS_NOT_FOUND",
    )


def protobuf_records(path: str, message: str) -> BinaryRecords:
    """The message of that full name in a file of `protoc --include_imports --descriptor_set_out`. ConfigurationError if
    it cannot be used.

    Spark gets a copy of the message, so that one that holds others of its own kind has the field at its top alone.
    """
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    files, pool = FileDescriptorSet(), DescriptorPool()
    try:
        files.ParseFromString(_bytes_of(path, "descriptor"))
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
    except (DecodeError, TypeError) as error:
        raise _no_descriptor(path, f": {' '.join(str(error).split())}" if files.file else "") from None
    if not files.file:
        raise _no_descriptor(path)
    try:
        found = pool.FindMessageTypeByName(message)
    except KeyError:
        names = [name for file in files.file for name in _names(file.message_type, file.package)]
        near = [name for name in names if name.endswith(f".{message}")] or difflib.get_close_matches(message, names)
        there = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(names)[:20]) or 'none'}"
        raise ConfigurationError(f"descriptor {path} has no message {message}; {there}") from None
    for file in files.file:
        if file.syntax in ("", "proto2"):
            file.options.java_string_check_utf8 = True  # otherwise Java writes U+FFFD for what is no text
        if file.name == found.file.name:
            copy = file.message_type.add()
            found.CopyToProto(copy)
            for name in ("nested_type", "enum_type", "extension", "extension_range", "reserved_range"):
                copy.ClearField(name)
            number = next(one for one in _NUMBERS if one not in found.fields_by_number)
            how = {"label": FieldDescriptorProto.LABEL_REPEATED, "type": FieldDescriptorProto.TYPE_BOOL}
            copy.field.add(name=_READ, number=number, **how)
            copy.name = _MESSAGE
    whole = ".".join(filter(None, (found.file.package, _MESSAGE)))
    return BinaryRecords("protobuf", message, files.SerializeToString(deterministic=True), whole)


def _no_descriptor(path: str, reason: str = "") -> ConfigurationError:
    return ConfigurationError(
        f"descriptor {path} is no complete descriptor set; make it with protoc --include_imports"
        f" --descriptor_set_out{reason}"
    )


def _names(messages: Iterable[DescriptorProto], within: str) -> Iterator[str]:
    for one in messages:
        if not one.options.map_entry:
            name = f"{within}.{one.name}" if within else one.name
            yield name
            yield from _names(one.nested_type, name)


def avro_records(path: str) -> BinaryRecords:
    """The record of an .avsc file. ConfigurationError if that is none; what only Avro's own parser finds, `columns`
    says."""
    try:
        schema: Any = json.loads(_bytes_of(path, "schema"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"schema {path} is no Avro schema, as it is not JSON: {error}") from None
    if not isinstance(schema, Mapping) or schema.get("type") != "record" or not isinstance(schema.get("name"), str):
        raise ConfigurationError(f'schema {path} is no Avro schema of a record, {{"type": "record", "name": ...}}')
    end = {"type": "fixed", "name": _READ, "size": _SUM_BYTES}
    fields = [{"name": "record", "type": schema}, {"name": _READ, "type": end}]
    whole = json.dumps({"type": "record", "name": _MESSAGE, "fields": fields})
    return BinaryRecords("avro", schema["name"], whole.encode())


def _bytes_of(path: str, name: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{name} names the file {path}, which cannot be read: {error.strerror}") from None
