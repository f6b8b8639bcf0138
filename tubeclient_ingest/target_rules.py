"""What the target's own rules refuse: its constraints, the lengths of its texts, columns that must have a value.

Delta ends a whole write at one such row, and shows the row's values. Here such a record is bad, as others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_source.typed.record_format import BAD_REASON, RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

__all__ = ["TargetRules"]

_CONSTRAINT: Final = "delta.constraints."
_PARSED: Final = "__parsed"
_REFUSED: Final = "__refused"


class TargetRules(NamedTuple):
    """What a table refuses: SQL that is true for each row that it takes, and what is wrong with others."""

    checks: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, columns: StructType, properties: Mapping[str, str], rows: DataFrame) -> TargetRules:
        """Of a table, for records with the columns of `rows`. A rule about other columns, as one that Delta computes,
        is no matter of a record: it is left to Delta, and ends the job."""
        from pyspark.errors import PySparkException

        named = [(check, name) for name, check in properties.items() if name.startswith(_CONSTRAINT)]
        checks = [(check, f"the target's constraint {name[len(_CONSTRAINT) :]} refuses it") for check, name in named]
        usable = []
        for check, reason in [*checks, *_of_columns(columns)]:
            with suppress(PySparkException):
                _ = rows.selectExpr(check).schema
                usable.append((check, reason))
        return cls(tuple(usable))

    def checked(self, parsed: DataFrame) -> DataFrame:
        """The rows of `RecordFormat.parse`; those are bad as well that the table refuses."""
        from pyspark.sql import functions as F

        if not self.checks:
            return parsed
        rows = parsed.select(F.struct("*").alias(_PARSED), f"{RECORD}.*")
        refused = F.lit(None).cast("string")
        for check, reason in self.checks:
            refused = F.coalesce(refused, F.when(~F.coalesce(F.expr(check), F.lit(False)), reason))
        rows = rows.select(f"{_PARSED}.*", F.when(F.col(_PARSED)[RECORD].isNotNull(), refused).alias(_REFUSED))
        record = F.when(F.col(_REFUSED).isNull(), F.col(RECORD))
        return rows.withColumns({BAD_REASON: F.coalesce(BAD_REASON, _REFUSED), RECORD: record}).drop(_REFUSED)


def _of_columns(columns: StructType, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    for one in columns:
        path = (*names, one.name)
        name, sql = ".".join(path), ".".join(f"`{part.replace('`', '``')}`" for part in path)
        if not one.nullable:
            yield f"{sql} IS NOT NULL", f"{name} is NOT NULL in the target and has no value"
        if (text := one.metadata.get("__CHAR_VARCHAR_TYPE_STRING")) is not None:
            with suppress(PySparkException):  # a name in it that DDL would have in backquotes
                check = _fits(DataType.fromDDL(text), sql)
                yield f"coalesce({check}, true)", f"the value of {name} is too long for {text}"
        if isinstance(one.dataType, StructType):
            yield from _of_columns(one.dataType, path)


def _fits(kind: DataType, sql: str) -> str:
    """SQL that is false for a value with a text that is too long; null or true for others."""
    from pyspark.sql.types import ArrayType, CharType, MapType, StructType, VarcharType

    if isinstance(kind, CharType | VarcharType):
        return f"length({sql}) <= {kind.length}"
    if isinstance(kind, StructType):
        return " AND ".join(_fits(one.dataType, f"{sql}.`{one.name}`") for one in kind) or "true"
    if isinstance(kind, ArrayType):
        return f"forall({sql}, x -> {_fits(kind.elementType, 'x')})"
    if isinstance(kind, MapType):
        parts = {"keys": kind.keyType, "values": kind.valueType}
        return " AND ".join(f"forall(map_{name}({sql}), x -> {_fits(one, 'x')})" for name, one in parts.items())
    return "true"
