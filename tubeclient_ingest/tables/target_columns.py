"""Whether a job's rows fit a table that is there: its columns, and its own rules, which are its constraints, the
lengths of its texts, columns that must have a value, and what a partition's value can be.

Delta ends a whole write at one row that breaks a rule, and shows the row's values. Here such a record is bad, as others
are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_source.options.table_uris import quoted, text_in_sql
from spark_source.read.schema import spark_type
from spark_source.typed.columns import ARRIVAL, BAD_REASON, CHANGE, LINEAGE, RECORD, VALUE
from tubeclient.errors import ConfigurationError
from tubeclient.records.changes import CHANGE_TYPE
from tubeclient.records.spec import CHANGES
from tubeclient_ingest.tables.partition_values import ESCAPED, NULL, REASON, TEXT, room
from tubeclient_ingest.tables.table_detail import TableDetail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spark_source.typed.record_format import RecordFormat

__all__ = [
    "LENGTH_OF_TEXT",
    "OtherColumns",
    "TargetRules",
    "can_widen",
    "check_columns",
    "columns_of",
    "lacking",
    "may_widen",
    "widenings",
]


class OtherColumns(ConfigurationError):
    """The table's columns are not those of the job's rows."""

    condition = "TARGET_COLUMNS"


def columns_of(record_format: RecordFormat, source: StructType, spark: SparkSession) -> StructType:
    """The columns that the target gets from rows with the columns `source`, those NOT NULL that have a value in each
    row. ConfigurationError if Spark cannot read records so."""
    from pyspark.errors import PySparkException

    try:
        found = _without_spark(record_format, source)
        if found is None:
            found = record_format.only_good(spark.createDataFrame([], source)).schema
    except PySparkException as error:
        reason = str(error).split("\n")[0].strip()
        raise ConfigurationError(f"Spark cannot read records of this format and schema: {reason}") from None
    # A log of changes has deletes with a key only, and DDL. With keys an update may lack columns, of a row whose insert
    # the job did not see. So of changes only keys are sure to have values.
    are_changes = record_format.kind in CHANGES
    sure = [column for column in record_format.schema or () if not are_changes or column.name in record_format.keys]
    filled = {column.name for column in sure if not column.nullable}
    for column in found:
        column.nullable = column.name not in filled
    return found


def _without_spark(form: RecordFormat, source: StructType) -> StructType | None:
    """The columns, where Spark need not say them, which takes it half a second; None with keys."""
    from pyspark.sql.types import StructField, StructType

    if form.schema is None:
        return StructType(list(source))
    if form.keys:
        return None
    lineage = StructType([column for column in source if column.name not in (VALUE, ARRIVAL, BAD_REASON)])
    change = [StructField(CHANGE, spark_type(CHANGE_TYPE))] if form.kind in CHANGES else []
    own = [StructField(column.name, column.dataType) for column in form.schema]
    return StructType([*own, *change, StructField(LINEAGE, lineage)])


def check_columns(table: StructType, rows: StructType, where: str, *, evolve: bool) -> None:
    """Raise OtherColumns if Delta would not append `rows` to `table`, which is at `where`.

    A column that the rows lack is null in them.
    """
    missing = []
    for name, kind, wanted in _differences(table, rows):
        if kind is not None:
            raise OtherColumns(
                f"column {name} of {where} has type {kind}, but the job's rows have {wanted} there. Use the table's "
                "type in the schema, use another target, or change the table's column first"
            )
        missing.append(f"{name} {wanted}")
    if missing and not evolve:
        raise OtherColumns(
            f"{where} lacks columns of the job's rows: {', '.join(missing)}. Set evolve to let the job add them to "
            "the table"
        )


def lacking(table: StructType, rows: StructType) -> bool:
    """Whether the table lacks columns of `rows`, or fields of them."""
    return any(kind is None for _, kind, _ in _differences(table, rows))


_WIDENING: Final = "delta.enableTypeWidening"
"""The property of tables whose columns may get a wider type. delta-rs neither writes nor reads those: Spark does."""
_WHOLE: Final = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""Whole numbers, from the smallest on, with the digits before the point of a DECIMAL that Delta widens them to."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def can_widen(kind: str, wanted: str) -> bool:
    """Whether Delta makes a column of type `kind` one of `wanted` that has all its values. (Source: "Type Widening" in
    Delta's PROTOCOL.md, without DATE and without whole numbers to DOUBLE.)"""
    kind, wanted = kind.lower(), wanted.lower()
    if kind in _WHOLE and wanted in _WHOLE:
        return [*_WHOLE].index(kind) < [*_WHOLE].index(wanted)
    after = _DECIMAL.fullmatch(wanted)
    if after is None or kind == wanted:
        return (kind, wanted) == ("float", "double")
    whole, scale = int(after[1]) - int(after[2]), int(after[2])
    if (before := _DECIMAL.fullmatch(kind)) is not None:
        return whole >= int(before[1]) - int(before[2]) and scale >= int(before[2])
    return whole >= _WHOLE.get(kind, 99)


def may_widen(table: TableDetail) -> bool:
    """Whether columns of the table may get a wider type."""
    return table.properties.get(_WIDENING, "").lower() == "true"


def widenings(table: TableDetail, rows: StructType, keys: Collection[str]) -> dict[str, str]:
    """The columns of a table that get a wider type for `rows`, with that type; none if the table says no. `keys`, what
    orders their rows, and columns that partition the table, keep theirs."""
    if not may_widen(table):
        return {}
    fixed = {*map(str.lower, (*keys, *table.partition_by))}
    return {
        name: wanted
        for name, kind, wanted in _differences(table.columns, rows)
        if kind is not None and "." not in name and name.lower() not in fixed and can_widen(kind, wanted)
    }


def _differences(table: StructType, rows: StructType, prefix: str = "") -> Iterator[tuple[str, str | None, str]]:
    """Columns of `rows`: the name, the table's type (None if it has no such column), and the rows' type. Columns are
    equal whatever their case."""
    from pyspark.sql.types import StructType

    there = {field.name.lower(): field.dataType for field in table}
    for field in rows:
        name, wanted = f"{prefix}{field.name}", field.dataType
        kind = there.get(field.name.lower())
        if kind is None:
            yield name, None, wanted.simpleString()
        elif isinstance(kind, StructType) and isinstance(wanted, StructType):
            yield from _differences(kind, wanted, f"{name}.")
        elif kind.simpleString() != wanted.simpleString():
            yield name, kind.simpleString(), wanted.simpleString()
        elif _REQUIRED.search(kind.json()) and not _REQUIRED.search(wanted.json()):
            yield name, f"{kind.simpleString()} without nulls in it", kind.simpleString()


_REQUIRED: Final = re.compile('"(?:containsNull|valueContainsNull)":false')
"""Lists and maps without nulls in them: neither Delta nor Iceberg checks that of a row."""
LENGTH_OF_TEXT: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Where a column's metadata say that it is VARCHAR(n) or CHAR(n)."""
_CONSTRAINT: Final = "delta.constraints."
_PARSED: Final = "__parsed"
_REFUSED: Final = "__refused"


class TargetRules(NamedTuple):
    """What a table refuses: SQL that is true for each row that it takes, and what is wrong with others."""

    checks: tuple[tuple[str, str], ...] = ()
    only: tuple[str, ...] = ()
    """The operations of changes that write their row; () stands for all."""
    others: str = ""
    """The reason of a rule that is not about the values of partitions; empty without one."""

    @classmethod
    def of(cls, table: TableDetail, columns: StructType, spark: SparkSession) -> TargetRules:
        """Of a table, for records with these columns. A rule about other columns, as one that Delta computes,
        is no matter of a record: it is left to Delta, and ends the job."""
        from pyspark.errors import PySparkException

        named = [(check, name) for name, check in table.properties.items() if name.startswith(_CONSTRAINT)]
        checks = [(check, f"the target's constraint {name[len(_CONSTRAINT) :]} refuses it") for check, name in named]
        filled = {f"{quoted(column.name)} IS NOT NULL" for column in columns if not column.nullable}
        of_partitions = [*_of_partitions(table)]
        found = [rule for rule in (*checks, *_of_columns(table.columns), *of_partitions) if rule[0] not in filled]
        usable = []
        if not found:  # most tables have no rule, and a frame takes a while
            return cls()
        rows = spark.createDataFrame([], columns)
        for check, reason in found:
            with suppress(PySparkException):
                _ = rows.selectExpr(check).schema
                usable.append((check, reason))
        others = [reason for check, reason in usable if (check, reason) not in of_partitions]
        return cls(tuple(usable), others=others[0] if others else "")

    def checked(self, parsed: DataFrame) -> DataFrame:
        """The rows of `RecordFormat.parse`; those are bad as well that the table refuses."""
        from pyspark.sql import functions as F

        if not self.checks:
            return parsed
        if parsed.schema[RECORD].dataType.typeName() == "array":
            return self._checked_lists(parsed)
        rows = parsed.select(F.struct("*").alias(_PARSED), f"{RECORD}.*")
        refused = F.lit(None).cast("string")
        for check, reason in self.checks:
            refused = F.coalesce(refused, F.when(~F.coalesce(F.expr(check), F.lit(False)), reason))
        rows = rows.select(f"{_PARSED}.*", F.when(F.col(_PARSED)[RECORD].isNotNull(), refused).alias(_REFUSED))
        record = F.when(F.col(_REFUSED).isNull(), F.col(RECORD))
        return rows.withColumns({BAD_REASON: F.coalesce(BAD_REASON, _REFUSED), RECORD: record}).drop(_REFUSED)

    def _checked_lists(self, parsed: DataFrame) -> DataFrame:
        """The same for lists of rows. One that is refused makes the record bad."""
        from pyspark.sql import functions as F

        written = " OR ".join(f"{_PARSED}.{CHANGE}.operation = '{operation}'" for operation in self.only) or "true"
        names = parsed.selectExpr(f"inline({RECORD})").columns
        refused = F.lit(None).cast("string")
        for check, reason in self.checks:
            wrong = f"({written}) AND NOT coalesce({_of_row(check, names)}, false)"
            if self.only:
                # The table has the value of a column that an update does not know; Delta judges the whole row.
                known = ", ".join(text_in_sql(name) for name in _named(check, names))
                absent = f"arrays_overlap({_PARSED}.{CHANGE}.absent, CAST(array({known}) AS ARRAY<STRING>))"
                wrong += f" AND NOT ({_PARSED}.{CHANGE}.operation = 'update' AND coalesce({absent}, false))"
            refused = F.coalesce(refused, F.when(F.expr(f"exists({RECORD}, {_PARSED} -> {wrong})"), reason))
        found = F.coalesce(BAD_REASON, refused)
        return parsed.withColumns({BAD_REASON: found, RECORD: F.when(found.isNull(), F.col(RECORD))})


def _named(check: str, names: Collection[str]) -> list[str]:
    """Those of the names that a rule has."""
    return [name for name in names if re.search(rf"(?i)(?<!\w){re.escape(name)}(?!\w)", check)]


def _of_row(check: str, names: Collection[str]) -> str:
    """A rule about columns, as one about the fields of `_PARSED`: each name in it stands for the field's value."""
    for name in names:
        if _named(check, [name]):
            check = f"get(transform(array({_PARSED}.{quoted(name)}), {quoted(name)} -> {check}), 0)"
    return check


def _of_columns(columns: StructType, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    from pyspark.sql.types import StructType

    for column in columns:
        path = (*names, column.name)
        name, sql = ".".join(path), ".".join(map(quoted, path))
        if not column.nullable:
            yield f"{sql} IS NOT NULL", f"{name} is NOT NULL in the target but has no value"
        text = column.metadata.get(LENGTH_OF_TEXT, "")
        if (length := _LENGTH.fullmatch(text)) is not None:
            yield f"coalesce(length({sql}) <= {length[1]}, true)", f"the value of {name} is too long for {text}"
        if isinstance(column.dataType, StructType):
            yield from _of_columns(column.dataType, path)


def _of_partitions(table: TableDetail) -> Iterator[tuple[str, str]]:
    """Delta writes a partition's value as the name of a folder, NAME=VALUE, and reads it from there."""
    has_others = any(table.properties.get(name, "none").lower() not in ("none", "false") for name in _OTHER_FOLDERS)
    for name in table.partition_by:
        kind, text = table.columns[name].dataType.typeName(), f"CAST({quoted(name)} AS STRING)"
        reason = REASON.format(name)
        if kind in ("string", "binary"):
            is_stored = f"{text} NOT IN ('', '{NULL}') AND is_valid_utf8({text}) AND NOT contains({text}, char(0))"
            if not has_others:
                # By its bytes: whether a backslash escapes anything in SQL is a session's setting.
                size = f"octet_length({text}) + 2 * regexp_count({text}, CAST(X'{ESCAPED.encode().hex()}' AS STRING))"
                is_stored += f" AND {size} <= {room(name)}"
            yield f"coalesce({is_stored}, true)", f"{reason}{TEXT}"
        elif kind == "timestamp":
            is_stored = f"{quoted(name)} = CAST({text} AS TIMESTAMP)"
            yield f"coalesce({is_stored}, true)", f"{reason}the clock of the time zone shows it twice"


_OTHER_FOLDERS: Final = ("delta.columnMapping.mode", "delta.randomizeFilePrefixes")
"""With these properties folders have names of their own."""
_LENGTH: Final = re.compile(r"(?:var)?char\((\d+)\)")
"""Of a text; lengths within lists and maps are left to Delta."""
