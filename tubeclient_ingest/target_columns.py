"""Whether a job's rows fit the columns of a table that is there already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from spark_source.typed.record_format import RecordFormat

__all__ = ["OtherColumns", "check_columns", "columns_of"]


class OtherColumns(ConfigurationError):
    """The table's columns are not those of the job's rows."""

    condition = "TARGET_COLUMNS"


def columns_of(record_format: RecordFormat, rows: DataFrame) -> StructType:
    """The columns that the target gets from the source's rows. ConfigurationError if Spark cannot read records so."""
    from pyspark.errors import PySparkException

    try:
        return record_format.only_good(rows).schema
    except PySparkException as error:
        reason = str(error).split("\n")[0].strip()
        raise ConfigurationError(f"Spark cannot read records of this format and schema: {reason}") from None


def check_columns(table: StructType | None, rows: StructType, where: str, *, evolve: bool) -> None:
    """Raise OtherColumns if Delta would not append `rows` to `table`, which is at `where`; None for no table.

    A column that the rows lack is null in them.
    """
    if table is None:
        return
    missing = []
    for name, kind, wanted in _differences(table, rows):
        if kind is not None:
            raise OtherColumns(
                f"column {name} of {where} has type {kind}, and the job's rows have {wanted} there. Give the schema"
                " with the table's type, or another target, or change the table's column first"
            )
        missing.append(f"{name} {wanted}")
    if missing and not evolve:
        raise OtherColumns(
            f"{where} lacks columns of the job's rows: {', '.join(missing)}. To let the job add them to the table, set"
            " evolve"
        )


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
