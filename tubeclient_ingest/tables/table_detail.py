"""What a Delta table is, by its log: without Spark, which reads all of a table's state to say it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from tubeclient_ingest.tables.delta_log import DeltaLog

__all__ = [
    "INDEXED",
    "NAMED_COLUMNS",
    "TABLE_BY",
    "GroupProperty",
    "TableDetail",
    "create_in_log",
    "detail_in_log",
    "has_local_files",
    "is_known_to_delta_rs",
    "local_folder",
    "mark_of",
    "why_not",
]

INDEXED: Final = "delta.dataSkippingNumIndexedCols"
_KNOWN: Final = (
    "delta.appendOnly",
    "delta.autoOptimize",
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpointInterval",
    INDEXED,
    "delta.deletedFileRetentionDuration",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableExpiredLogCleanup",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.tuneFileSizesForRewrites",
    "delta.targetFileSize",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
)
"""Properties of Delta's that ask nothing of who appends files."""
_FEATURES: Final = (
    *("appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz"),
    *("checkConstraints", "generatedColumns", "invariants"),
)
"""The protocol's features that ask nothing either. Those of the second line do where properties or columns use them. To
tables with others delta-rs commits nothing, used or not."""
_NEWEST_PROTOCOL: Final = 3, 7
_WITH_IDENTITIES: Final = 6
"""The version of writers before there were features, of which delta-rs lacks identity columns."""
_IN_METADATA: Final = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT", "__CHAR_VARCHAR")
"""How what a column's metadata says begins, if the column has a rule."""
_PARTITIONS: Final = ("string", "byte", "short", "integer", "long", "boolean", "date")
"""Types of columns that partition a table, whose values the log has in one form only."""
_OF_SPARK: Final = ("delta.", "option.")
"""How properties begin that mean something to who makes a table. So do some that have no dot."""
_PLAIN: Final = re.compile(
    r"struct|array|map|string|byte|short|integer|long|float|double|decimal\(\d+,\d+\)|boolean|binary|date|timestamp"
)
"""Types that ask for no feature of the table."""

NAMED_COLUMNS: Final = "tubeclient.columns"
"""The property of a stream's table that has the names of its columns that events have named, as a JSON list."""
_OF_GROUP: Final = "tubeclient.consumerGroup."
TABLE_BY: Final = "tubeclient.tableBy."
"""How the property of a counts table begins that says what tells the tables of a group apart."""


class TableDetail(NamedTuple):
    """What a table is."""

    table_id: str
    """The id that Delta gave it. A table may be deleted and made anew under the same path or name."""
    location: str
    columns: StructType
    properties: Mapping[str, str]
    partition_by: Sequence[str] = ()


class GroupProperty(NamedTuple):
    """What a target itself says of a group that has rows in it."""

    undone: tuple[tuple[int, int], ...] = ()
    """Which of the group's numbers RESTORE undid, as SinkRecord has it."""
    table_ids: tuple[str, ...] = ()
    """The table's id and, behind it, those that it had before; () if it had no other."""

    def properties(self, consumer_group: str) -> dict[str, str]:
        """The property that says it. Clones have it too; CREATE OR REPLACE TABLE takes it away. Each group has one of
        its own: of two that set the same one, one would be lost."""
        return {_OF_GROUP + consumer_group: json.dumps({"undone": self.undone, "tableIds": self.table_ids})}

    @classmethod
    def of(cls, properties: Mapping[str, str], consumer_group: str) -> GroupProperty | None:
        """What a table's properties say; None if they do not say that the group has rows there. ConfigurationError:
        somebody changed that."""
        name = _OF_GROUP + consumer_group
        if (text := properties.get(name)) is None:
            return None
        try:
            found = json.loads(text)
            return cls(tuple((int(first), int(last)) for first, last in found["undone"]), tuple(found["tableIds"]))
        except (ValueError, TypeError, KeyError):
            raise ConfigurationError(
                f"the property {name} of the target is {text!r}, which the job does not support; remove it"
            ) from None


def mark_of(handle: DeltaTable) -> object:
    """What must stay the same for a job that writes files: all but its rows, and which groups have some."""
    found, protocol = handle.metadata(), handle.protocol()
    of_jobs = (_OF_GROUP, TABLE_BY, NAMED_COLUMNS)
    properties = {name: value for name, value in found.configuration.items() if not name.startswith(of_jobs)}
    return found.id, properties, found.partition_columns, handle.schema().to_json(), protocol


def why_not(handle: DeltaTable, detail: TableDetail) -> str | None:
    """Why files may not be appended without Spark to a table that delta-rs has open; None if they may."""
    protocol = handle.protocol()
    versions = protocol.min_reader_version, protocol.min_writer_version
    if versions > _NEWEST_PROTOCOL or versions[1] == _WITH_IDENTITIES:
        return f"its protocol is {versions[0]}, {versions[1]}"
    features = [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
    # Of what columns' metadata say Spark hides some.
    metadata = {field["name"]: field["metadata"] for field in json.loads(handle.schema().to_json())["fields"]}
    for name in sorted(detail.properties):
        feature = name.removeprefix("delta.feature.")
        if name.startswith("delta.") and name not in _KNOWN and feature not in _FEATURES:
            return f"it has the property {name}"
    for name, own in metadata.items():
        if rule := next((key for key in sorted(own) if key.startswith(_IN_METADATA)), None):
            return f"its column {name} has {rule}"
    if others := sorted(set(features).difference(_FEATURES)):
        return f"it has the feature {others[0]}"
    for column in detail.columns:
        if column.name in detail.partition_by and column.dataType.typeName() not in _PARTITIONS:
            return f"it is partitioned by {column.name}, which is {column.dataType.simpleString()}"
    return None


def detail_in_log(log: DeltaLog) -> TableDetail | None:
    """Of a table that delta-rs reaches; None if there is none, or one of which Spark may say more than its log."""
    try:
        handle = log.refresh()
        if handle is None:
            return None
        found, schema = handle.metadata(), json.loads(handle.schema().to_json())
    except Exception:  # also plain Exception: delta-rs raises it for what it does not know
        return None
    from pyspark.sql.types import StructType

    columns = StructType.fromJson(schema)
    location = log.uri if "://" in log.uri else f"file:{log.uri}"
    detail = TableDetail(str(found.id), location, columns, found.configuration, tuple(found.partition_columns))
    return detail if why_not(handle, detail) is None else None


def create_in_log(
    log: DeltaLog, columns: StructType, partition_by: Sequence[str], properties: Mapping[str, str]
) -> bool:
    """Make a plain table in a folder that is missing, or has no files. False: Spark has to, or says what is wrong."""
    made = columns.jsonValue()
    for field in made["fields"]:  # as in SQL, only whole columns are NOT NULL
        field["type"] = json.loads(json.dumps(field["type"]), object_hook=_with_nulls)
    text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
    names = [name.lower() for name in re.findall(r'"name":"((?:[^"\\]|\\.)*)"', text)]
    kinds = re.findall(r'"(?:type|elementType|keyType|valueType)":"([^"]*)"', text)
    types = {column.name: column.dataType.typeName() for column in columns}
    is_plain = (
        len(set(names)) == len(names)
        and all(re.fullmatch(r"\w+", name) for name in names)
        and all(map(_PLAIN.fullmatch, kinds))
        and not re.search(r'"metadata":{[^}]', text)
        and all("." in name and not name.lower().startswith(_OF_SPARK) for name in properties)
        and all(types.get(name) in _PARTITIONS for name in partition_by)
        and len(partition_by) < len(types)
    )
    if not is_plain:
        return False
    try:
        if log.has_files():
            return False
        log.create(text, partition_by, properties)
    except Exception:  # also of the file system; and another job may have made it at this moment
        return False
    return True


def _with_nulls(kind: dict[str, Any]) -> dict[str, Any]:
    return {name: value is False or value for name, value in kind.items()}


def is_known_to_delta_rs(folder: str) -> bool:
    """Whether the path of a local folder means the same to delta-rs."""
    return not any(char in folder for char in "[]^|%\\")


def has_local_files(spark: SparkSession) -> bool:
    """Whether a path without a scheme names the same file for Spark as for this process."""
    try:
        of_context = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
        system = spark.conf.get("fs.defaultFS", of_context)
    except Exception:  # Spark Connect has no context, and some runtimes hide it
        return False
    return str(system).startswith("file:")


def local_folder(location: str) -> str | None:
    """The local folder at a place, as Spark writes it: with any characters as they are; None for other kinds of storage
    and for paths that are not absolute."""
    path = location.removeprefix("file:")
    if path != location:
        path = f"/{path.lstrip('/')}"
    return str(Path(path)) if path.startswith("/") else None
