"""The list that says which columns records get in place of the schema's, in DuckDB's SQL: read, and checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient.records.spec import simple_name

if TYPE_CHECKING:
    import duckdb
    from duckdb.sqltypes import DuckDBPyType

__all__ = ["ROW", "Flags", "SelectedColumn", "Selection", "Sql", "in_utc"]

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
"""One for each row."""

_RECORD: Final = "record"
"""The table that expressions are about."""
ROW: Final = "__tubeclient_row"
"""A column of it, the record's number."""
_SHOWN: Final = 30
"""Characters of a list behind a fault."""
_PLAIN: Final = (
    *("COLUMN_REF", "CONSTANT", "FUNCTION", "OPERATOR", "CASE", "CAST", "TYPE", "COMPARISON", "CONJUNCTION"),
    *("BETWEEN", "LAMBDA", "COLLATE"),
)
"""Expressions of one record whose columns are named, by DuckDB's names."""


_TYPES: Final = (
    *("boolean", "tinyint", "smallint", "integer", "bigint", "float", "double", "decimal", "varchar", "uuid", "blob"),
    *("date", "timestamp", "timestamp with time zone"),
)
"""By DuckDB's names, without those of parts."""


_CLOCKS: Final = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
"""Functions of SQL that have no brackets."""


class SelectedColumn(NamedTuple):
    """A column that a record gets."""

    name: str
    needs: tuple[str, ...]
    """The record's columns that it is computed of, or the one that it is."""
    sql: str = ""
    """The expression; "" for a column that is taken as it is."""
    type: pa.DataType | None = None
    """Of a computed one."""


@dataclass(frozen=True)
class Selection:
    """What records have in place of their columns. Can be pickled."""

    outputs: tuple[SelectedColumn, ...]
    width: int
    """How many columns the schema has; what records have behind those stays as it is."""
    time_zone: str

    @classmethod
    def of(cls, text: str, columns: pa.Schema, time_zone: str) -> Selection:
        """The selection of a list as behind SELECT, in DuckDB's SQL, of records with these columns. In a `time_zone`,
        by its IANA name, times become dates and texts. ConfigurationError: it is none, or not of one record alone."""
        sql = Sql(time_zone)
        tree = _parsed(sql, text)
        names = {name.lower(): name for name in columns.names}
        found = [output for part in tree["statements"][0]["node"]["select_list"] for output in _outputs(part, names)]
        # With a row of nulls, as what gives many rows of one gives none of none.
        rows = pa.table({**{field.name: pa.nulls(1, field.type) for field in columns}, ROW: [0]})
        outputs = []
        for name, part in found:
            if (column := _column_of(part, names)) is not None:
                outputs.append(SelectedColumn(name or column, (column,)))
                continue
            tree["statements"][0]["node"]["select_list"] = [{**part, "alias": ""}]
            expression = sql.text(tree).removeprefix("SELECT ").removesuffix(f" FROM {_RECORD}")
            needs = tuple(dict.fromkeys(_needed(part, names, sql)))
            _type_of(sql, name, expression, rows)  # says what is wrong where all columns are there
            outputs.append(
                SelectedColumn(name, needs, expression, _type_of(sql, name, expression, rows.select([*needs, ROW])))
            )
        given = [output.name.lower() for output in outputs]
        if twice := next((name for name in given if given.count(name) > 1), None):
            raise ConfigurationError(f"select gives {twice} more than once; names must differ in more than case")
        return cls(tuple(outputs), len(columns), time_zone)

    def name_of(self, column: str) -> str:
        """The name that a column has which is taken as it is."""
        return next(output.name for output in self.outputs if not output.sql and output.needs == (column,))

    def column_of(self, name: str) -> str:
        """The column that has this name, and is taken as it is."""
        return next(output.needs[0] for output in self.outputs if not output.sql and output.name == name)


def _parsed(sql: Sql, text: str) -> dict[str, Any]:
    """What DuckDB reads in a list as behind SELECT."""
    tree = sql.tree(f"SELECT {text}\nFROM {_RECORD}")
    if tree["error"]:
        at = int(tree.get("position") or 0) - len("SELECT ")
        where = f", at {text[at : at + _SHOWN]!r}" if 0 <= at < len(text) else ""
        raise ConfigurationError(
            f"select cannot be read: {tree['error_message']}{where}. Put double quotes around a column whose name is "
            "a DuckDB keyword"
        )
    node = tree["statements"][0]["node"]
    is_list = len(tree["statements"]) == 1 and node["type"] == "SELECT_NODE" and not node["modifiers"]
    if not is_list or node["from_table"]["type"] != "BASE_TABLE":
        raise ConfigurationError("select is more than a list of columns; write only what goes between SELECT and FROM")
    return tree


def _outputs(part: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The columns of an entry of the list: their names, "" for that of a column that is taken as it is, and their
    expressions."""
    is_all = part["class"] == "STAR" and part["relation_name"] in ("", _RECORD)
    if not is_all or part["columns"] or part["expr"] is not None:
        if not part["alias"] and _column_of(part, names) is None:
            if part["class"] == "COLUMN_REF" and len(path := part["column_names"]) == 1:
                raise _unknown(path[0], names)
            raise ConfigurationError("select computes a column without a name; write EXPRESSION AS NAME")
        yield part["alias"], part
        return
    others = {entry["key"].lower(): entry["value"] for entry in part["replace_list"]}
    renamed = {entry["key"]["column"].lower(): entry["value"] for entry in part["rename_list"]}
    excluded = {name.lower() for name in part["exclude_list"]}
    if unknown := sorted({*others, *renamed, *excluded} - names.keys()):
        raise _unknown(unknown[0], names)
    for lower, name in names.items():
        if lower not in excluded:
            yield renamed.get(lower, name), others.get(lower) or {"class": "COLUMN_REF", "column_names": [name]}


def _unknown(name: str, names: Mapping[str, str]) -> ConfigurationError:
    return ConfigurationError(f"select names {name}, but records have {', '.join(names.values())}")


def _column_of(part: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    """The column that an expression is; None for others."""
    if part["class"] != "COLUMN_REF":
        return None
    path = part["column_names"]
    return names.get(path[-1].lower()) if len(path) == 1 or path[:-1] == [_RECORD] else None


def _needed(part: Any, names: Mapping[str, str], sql: Sql, within: tuple[str, ...] = ()) -> Iterator[str]:
    """The columns that an expression is computed of. ConfigurationError: it is not of one record's columns."""
    if isinstance(part, Mapping):
        if part.get("class", _PLAIN[0]) not in _PLAIN:
            raise ConfigurationError(
                "select has a query, a window, a * or a # within an expression; compute a column from one record's "
                "columns, by their names"
            )
        if part.get("class") == "TYPE" and part["type_name"].upper() in ("TIMETZ", "TIME WITH TIME ZONE"):
            raise _changing(part["type_name"])  # which has today's offset of the time zone
        function = part["function_name"] if part.get("class") == "FUNCTION" else ""
        if function and part["schema"] and not within:
            raise ConfigurationError(f"select has {part['schema']}.{function}(); write {function}({part['schema']})")
        if function and not sql.functions(function):  # as an alias that DuckDB's parser knows, of what gives many
            raise ConfigurationError(f"select has {function}(), which is not a DuckDB function")
        for kind, definition, changes in sql.functions(function):
            if changes:
                raise _changing(f"{function}()")
            if kind not in ("scalar", "macro") and (kind != "table" or function == "unnest"):
                raise ConfigurationError(f"select has {function}(), which takes or returns many records")
            if kind == "macro" and function not in within:  # in its words there may be the like
                tree = _parsed(sql, definition)["statements"][0]["node"]["select_list"]
                yield from _needed(tree, {}, sql, (*within, function))
        if part.get("class") == "COLUMN_REF":
            path = [*map(str.lower, part["column_names"])]
            if path[0] in _CLOCKS and path[0] not in names:
                raise _changing(path[0])
            if path == [_RECORD] and _RECORD not in names:
                raise ConfigurationError("select names a whole record; name its columns")
            yield from (names[name] for name in path[: 1 + (path[0] == _RECORD)] if name in names)
    for inner in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
        yield from _needed(inner, names, sql, within)


def _changing(what: str) -> ConfigurationError:
    """A record may be read once more, and would be another one, or bad and good."""
    return ConfigurationError(f"select has {what}, whose value differs each time")


def _type_of(sql: Sql, name: str, expression: str, rows: pa.Table) -> pa.DataType:
    """The type of a computed column, tried on `rows`. ConfigurationError: there is no such, or no table has it."""
    try:
        none = rows.slice(0, 0)
        kind, found = sql.type_of(expression, none), sql.columns([expression], none)[0].type
        with suppress(*sql.error):
            sql.columns([expression], rows)
    except (*sql.error, pa.ArrowException, ValueError) as error:  # the latter two of types that pyarrow lacks
        raise ConfigurationError(f"select cannot compute {name}: {str(error).splitlines()[0]}") from None
    except AssertionError:
        raise ConfigurationError(f"select computes {name} over many records; write an expression over one") from None
    found = in_utc(found)
    try:
        simple_name(found)
        if _is_plain(kind):
            return found
    except ConfigurationError:
        pass
    raise ConfigurationError(
        f"{name} of select is {kind}, a type that tables do not have; write CAST({expression} AS TYPE)"
    )


def _is_plain(kind: Any) -> bool:
    """Whether Arrow shows a type as what it is. HUGEINT would be a DECIMAL, which lacks its greatest values."""
    if kind.id in ("struct", "list", "map"):
        return all(_is_plain(part) for _, part in kind.children)
    return kind.id in _TYPES


def in_utc(kind: pa.DataType) -> pa.DataType:
    """A type whose times are shown in UTC: DuckDB shows them in its session's zone."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    parts = [kind.field(at) for at in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_utc(field.type)) for field in parts])
    if pa.types.is_list(kind):
        return pa.list_(in_utc(kind.value_type))
    return pa.map_(in_utc(kind.key_type), in_utc(kind.item_type)) if pa.types.is_map(kind) else kind


_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SLOT_S: Final = 900
"""Clocks are changed where a slot ends."""
_FIRST_SLOT: Final = int((datetime(1, 1, 3, tzinfo=UTC) - _1970).total_seconds()) // _SLOT_S
_LAST_SLOT: Final = int((datetime(9999, 12, 29, tzinfo=UTC) - _1970).total_seconds()) // _SLOT_S


_FUNCTIONS: Final = """
    SELECT DISTINCT function_type, macro_definition, coalesce(
        stability = 'VOLATILE' AND function_name <> 'error'
        OR stability = 'CONSISTENT_WITHIN_QUERY' AND (len(parameters) = 0 OR function_name = 'age'),
        false
    ) FROM duckdb_functions() WHERE function_name = ?"""


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for the process, which takes 20 ms to open. It sees no file, no network and no variable of Python's."""
    with brought_by("select"):
        import duckdb
    own = {"threads": 1, "enable_external_access": False, "python_enable_replacements": False}
    no = dict.fromkeys(("autoinstall_known_extensions", "autoload_known_extensions"), False)
    return duckdb.connect(":memory:", config={**own, **no})


class Sql:
    """A session of DuckDB, for one thread."""

    def __init__(self, time_zone: str) -> None:
        self._session = _database().cursor()
        self._session.execute(f"SET TimeZone = '{time_zone}'")
        self._zone = ZoneInfo(time_zone)
        self._differs: dict[int, bool] = {}
        """As `differs`, by the slots since 1970 that times were in."""

    @property
    def error(self) -> tuple[type[Exception], ...]:
        """Of SQL that does not fit, or of a value. DuckDB's messages may have half a letter of one, which its binding
        cannot read."""
        import duckdb

        return duckdb.Error, UnicodeDecodeError

    @cache  # noqa: B019 - a session lives as long as a selection is read
    def functions(self, name: str) -> list[tuple[str, str, bool]]:
        """What DuckDB has by this name: scalar, macro, aggregate or others; a macro's definition; and whether its value
        is another one at each look, as of a clock."""
        found: list[tuple[str, str, bool]] = (
            self._session.execute(_FUNCTIONS, [name.lower()]).fetchall() if name else []
        )
        return found

    def tree(self, sql: str) -> dict[str, Any]:
        """What DuckDB reads in a text."""
        found: dict[str, Any] = json.loads(self._value("SELECT json_serialize_sql(?)", sql))
        return found

    def text(self, tree: Mapping[str, Any]) -> str:
        """The text of what `tree` gives."""
        return str(self._value("SELECT json_deserialize_sql(?::JSON)", json.dumps(tree)))

    def type_of(self, expression: str, rows: pa.Table) -> DuckDBPyType:
        """DuckDB's type of an expression."""
        self._session.register(_RECORD, rows)
        return self._session.sql(f"SELECT {expression} FROM {_RECORD}").types[0]  # noqa: S608

    def columns(self, expressions: Sequence[str], rows: pa.Table) -> list[pa.Array]:
        """The values of expressions in these rows."""
        self._session.register(_RECORD, rows)
        made = ", ".join(f'{sql} AS "{at}"' for at, sql in enumerate((*expressions, ROW)))
        found = self._session.sql(f"SELECT {made} FROM {_RECORD}").to_arrow_table()  # noqa: S608
        *columns, numbers = [column.combine_chunks() for column in found.columns]
        assert numbers.equals(rows.column(ROW).combine_chunks()), "values are not in the order of their records"
        return columns

    def differs(self, times: pa.Array) -> Flags:
        """At which times DuckDB's data of the zone has another offset than Python's, by which records are read. Never
        for what is no TIMESTAMP."""
        if not pa.types.is_timestamp(times.type) or times.type.tz is None:
            return np.zeros(len(times), bool)
        micros = pc.fill_null(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 0).to_numpy()
        found = np.clip(micros // (_SLOT_S * 1_000_000), _FIRST_SLOT, _LAST_SLOT)
        slots, which = np.unique(found, return_inverse=True)
        if new := [slot for slot in slots.tolist() if slot not in self._differs]:
            seconds = [slot * _SLOT_S + end for slot in new for end in (0, _SLOT_S - 1)]
            sql = "SELECT epoch(timezone(current_setting('TimeZone'), to_timestamp(s)))::BIGINT - s FROM moments"
            self._session.register("moments", pa.table({"s": pa.array(seconds, pa.int64())}))
            theirs = [row[0] for row in self._session.execute(sql).fetchall()]
            moments = ((_1970 + timedelta(seconds=second)).astimezone(self._zone) for second in seconds)
            ours = [(moment.utcoffset() or timedelta(0)).total_seconds() for moment in moments]
            ends = [our != their for our, their in zip(ours, theirs, strict=True)]
            self._differs.update(zip(new, map(any, zip(ends[::2], ends[1::2], strict=True)), strict=True))
        is_other = np.array([self._differs[slot] for slot in slots.tolist()], bool)[which]
        return np.asarray(is_other & pc.is_valid(times).to_numpy(zero_copy_only=False), bool)

    def _value(self, sql: str, text: str) -> Any:
        return self._session.execute(sql, [text]).fetchall()[0][0]
