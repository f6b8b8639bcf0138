"""Which change of a key is the newest, and what a round's changes of a key come to. Expressions of Spark, without I/O.

Three things say when a change was made: its place in the database's log, the database's clock, and when the job read
it. Within one log the place decides. If both others are against it, the log began anew under its name, as after a
failover, and they decide; only of a binary log that cannot be. Between two logs time decides; at the same time, the one
that came later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spark_source.options.table_uris import quoted, text_in_sql, type_in_sql
from spark_source.typed.columns import CHANGE, LINEAGE
from tubeclient.records.log_places import BINLOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "COUNT",
    "KEY",
    "ROW",
    "ROW_OPERATIONS",
    "before_all",
    "has_logs",
    "in_form",
    "later",
    "newest",
    "value_after_update",
]

ROW_OPERATIONS: Final = ("insert", "update", "snapshot")
"""The operations that write a row."""
KEY: Final = "key"
ROW: Final = "row"
COUNT: Final = "count"
"""The columns of `newest`."""
_ABSENT: Final = "absent"
_ROUND: Final = "round"
_BY_PLACE: Final = "byPlace"
_BY_TIME: Final = "byTime"
_ALL: Final = "all"
_SINCE: Final = "since"
_LEFT: Final = "left"


def has_logs(rows: StructType) -> bool:
    """Whether the rows are changes of a database, which have places in logs and may lack columns."""
    from pyspark.sql.types import StructType

    change = rows[CHANGE].dataType
    assert isinstance(change, StructType)
    return _ABSENT in change.names


def later(new: str, old: str, *, of_logs: bool = True) -> str:
    """SQL that is true if the sequence `new` is later than `old`. Sequences without logs are compared as structs."""
    if not of_logs:
        return f"coalesce({new} > {old}, true)"
    came, came_before = _came(new), _came(old)
    is_same_log = f"coalesce({new}.log = {old}.log AND size({new}.position) > 0 AND size({old}.position) > 0, false)"
    is_binlog = f"startswith({new}.log, {text_in_sql(BINLOG)})"
    return (
        f"CASE WHEN NOT {is_same_log} THEN struct({new}.time, {came}) > struct({old}.time, {came_before})"
        f" WHEN {new}.position = {old}.position THEN {came} > {came_before}"
        f" WHEN {new}.position > {old}.position"
        f" THEN {is_binlog} OR NOT (coalesce({new}.time < {old}.time, false) AND {came} < {came_before})"
        f" ELSE coalesce({new}.time > {old}.time, false) AND {came} > {came_before} AND NOT {is_binlog} END"
    )


def before_all(sequence: str, fields: Sequence[str]) -> str:
    """SQL of a sequence with these fields that says what `sequence` says, but came before all that `later` compares it
    with. So others may write any number into the table."""
    parts = [
        f"{text_in_sql(field)}, {'CAST(NULL AS BIGINT)' if field == _ROUND else f'{sequence}.{quoted(field)}'}"
        for field in fields
    ]
    return f"named_struct({', '.join(parts)})"


def _came(sequence: str) -> str:
    return f"struct({sequence}.round, {sequence}.place, {sequence}.row)"


def value_after_update(name: str, new: str, old: str) -> str:
    """SQL of a column after the change of the row `old`, whose value is `new`: an update leaves alone what it does not
    know."""
    return f"IF(s.{CHANGE}.operation = 'update' AND {_is_absent('s', name)}, {old}, {new})"


def in_form(new: str, kind: DataType, there: DataType, old: str | None = None) -> str:
    """SQL of the value `new`, of type `kind`, as the table's type `there`, whose structs may have more fields, in
    another order. Those that `new` lacks are `old`'s, or null. By names: Delta and CAST go by places, or fill a null
    struct."""
    from pyspark.sql.types import StructType

    if (
        not (isinstance(kind, StructType) and isinstance(there, StructType))
        or kind.simpleString() == there.simpleString()
    ):
        return new
    own = {field.name.lower(): field for field in kind}
    parts = []
    for field in there:
        before = None if old is None else f"{old}.{quoted(field.name)}"
        value = before or f"CAST(NULL AS {type_in_sql(field.dataType)})"
        if (found := own.get(field.name.lower())) is not None:
            value = in_form(f"{new}.{quoted(found.name)}", found.dataType, field.dataType, before)
        parts.append(f"{text_in_sql(field.name)}, {value}")
    return f"IF({new} IS NULL, NULL, named_struct({', '.join(parts)}))"


def newest(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """The last change of each key, with the values that earlier ones have of the columns that it does not know; and one
    row, whose key is null, for all that changes none."""
    from pyspark.sql import functions as F

    columns = rows.schema
    row = F.col(ROW)
    change, sequence = row[CHANGE], row[CHANGE]["sequence"]
    is_row = change["operation"].isin(*ROW_OPERATIONS, "delete")
    key = F.when(is_row, F.struct(*(row[name].alias(name) for name in keys))).alias(KEY)
    packed = rows.select(F.struct("*").alias(ROW))
    if not has_logs(columns):
        return packed.groupBy(key).agg(F.max_by(row, sequence).alias(ROW), F.count("*").alias(COUNT))
    # Of changes that lack the same columns the last one says all that the others say. So few are left of each key,
    # however often it was changed.
    came = F.struct(*(sequence[name] for name in ("round", "place", "row")))
    position = F.when(sequence["log"].isNotNull(), sequence["position"])
    is_update, absent, log = change["operation"] == "update", change[_ABSENT], sequence["log"]
    few = packed.groupBy(key, is_update.alias("isUpdate"), absent.alias(_ABSENT), log.alias("log")).agg(
        F.max_by(row, F.struct(position, came)).alias(_BY_PLACE),
        F.max_by(row, F.struct(sequence["time"], position, came)).alias(_BY_TIME),
        F.count("*").alias(COUNT),
    )
    is_other = ~F.col(_BY_TIME)[CHANGE]["sequence"].eqNullSafe(F.col(_BY_PLACE)[CHANGE]["sequence"])
    found = few.groupBy(KEY).agg(
        F.concat(F.collect_list(_BY_PLACE), F.collect_list(F.when(is_other, F.col(_BY_TIME)))).alias(_ALL),
        F.sum(COUNT).alias(COUNT),
    )
    return _folded(found.select(KEY, COUNT, F.expr(_sorted(_ALL)).alias(_ALL)), columns, keys)


def _sorted(rows: str) -> str:
    """SQL of a list of rows, the last one first. By how many of the others are later, which is an order whatever they
    are; of those with as many, the one that came last is the first."""
    is_later = later(f"y.{CHANGE}.sequence", f"x.{CHANGE}.sequence")
    ranked = f"transform({rows}, x -> struct(size(filter({rows}, y -> {is_later})) AS rank, x AS row))"
    a, b = (_came(f"{side}.row.{CHANGE}.sequence") for side in "ab")
    order = f"CASE WHEN a.rank <> b.rank THEN a.rank - b.rank WHEN {a} > {b} THEN -1 WHEN {a} < {b} THEN 1 ELSE 0 END"
    return f"IF(size({rows}) < 2, {rows}, transform(array_sort({ranked}, (a, b) -> {order}), one -> one.row))"


def _folded(found: DataFrame, columns: StructType, keys: tuple[str, ...]) -> DataFrame:
    """One row of each key, from its rows in `_ALL`, the last one first."""
    from pyspark.sql import functions as F

    # The rows since the one that wrote or deleted all of it, with it if it wrote.
    whole = f"array_position(transform({_ALL}, r -> r.{CHANGE}.operation <> 'update'), true)"
    deleted = f"CASE WHEN get({_ALL}, CAST({whole} - 1 AS INT)).{CHANGE}.operation = 'delete' THEN 1 ELSE 0 END"
    since = f"CASE WHEN {whole} = 0 THEN {_ALL} ELSE slice({_ALL}, 1, CAST({whole} AS INT) - {deleted}) END"
    last = f"get({_ALL}, 0)"
    left = (
        f"filter({last}.{CHANGE}.{_ABSENT}, name -> forall({_SINCE}, r -> coalesce(array_contains("
        f"r.{CHANGE}.{_ABSENT}, name), false)))"
    )
    # What is still not known of a row that was written in this round is not known at all: the target's is older.
    operation = f"IF({whole} > 0 AND size({_LEFT}) > 0, 'insert', 'update')"
    change = (
        f"named_struct('operation', {operation}, '{_ABSENT}', IF(size({_LEFT}) > 0, {_LEFT}, NULL),"
        f" 'sequence', {last}.{CHANGE}.sequence)"
    )
    values = []
    for name in columns.names:
        value = f"{last}.{quoted(name)}"
        if name == CHANGE:
            value = change
        elif name != LINEAGE and name not in keys:
            value = f"get(filter({_SINCE}, r -> NOT {_is_absent('r', name)}), 0).{quoted(name)}"
        values.append(f"{text_in_sql(name)}, {value}")
    is_whole = f"size({_ALL}) < 2 OR {last}.{CHANGE}.operation <> 'update' OR {last}.{CHANGE}.{_ABSENT} IS NULL"
    row = f"CASE WHEN {is_whole} THEN {last} ELSE named_struct({', '.join(values)}) END"
    steps = found.select("*", F.expr(since).alias(_SINCE)).select("*", F.expr(left).alias(_LEFT))
    return steps.select(KEY, F.expr(row).alias(ROW), COUNT)


def _is_absent(row: str, name: str) -> str:
    return f"coalesce(array_contains({row}.{CHANGE}.{_ABSENT}, {text_in_sql(name)}), false)"
