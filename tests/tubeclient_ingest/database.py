"""A MySQL-like history of many tables, as Canal and Debezium send it, and the states that it ends in."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from embedded_tubemq import NewMessage

__all__ = ["Database", "Form"]

Form = Literal["canal-json", "debezium-json"]
Row = dict[str, Any]

STORES: Final = 2
_VALUES: Final = {"int": (99,), "int unsigned": (2**31, 2**32)}
_STORE_PARTITIONS: Final = 10_000


class Database:
    """Rows of (id BIGINT, name STRING, n INT), by table as database.table, and by their ids."""

    def __init__(
        self,
        form: Form,
        tables: list[str],
        seed: int,
        *,
        says_columns: bool = False,
        keys: Mapping[str, list[str]] = MappingProxyType({}),
    ) -> None:
        """With `says_columns` events say of which types their columns are, and `add` adds columns. `keys` are the
        primary keys, by table, as far as events say them."""
        self._says_columns = says_columns
        self.keys = dict(keys)
        self.n_type = "int"
        """MySQL's type of the column n."""
        self._added: dict[str, list[str]] = {one: [] for one in tables}
        self._form, self._random, self.tables = form, random.Random(seed), tables
        self.states: dict[str, dict[int, Row]] = {one: {} for one in tables}
        self.sent: dict[str, int] = dict.fromkeys(tables, 0)
        """Changes of each table."""
        self._place = 0

    def change(self, count: int) -> list[NewMessage]:
        """So many changes, of any tables and in any partitions."""
        messages = []
        for _ in range(count):
            table = self._random.choice(self.tables)
            body = self._changed(table)
            store = self._random.randrange(STORES)
            messages.append(NewMessage(store * _STORE_PARTITIONS, json.dumps(body).encode()))
        return messages

    def add(self, table: str, column: str) -> None:
        """ALTER TABLE ... ADD COLUMN of a DECIMAL(12,3), which is null in the rows that are there."""
        self._added[table].append(column)
        for row in self.states[table].values():
            row[column] = None

    def ddl(self, table: str) -> NewMessage:
        """A statement that changes no row."""
        return NewMessage(0, json.dumps(self._message(table, "ddl", None, None)).encode())

    def _changed(self, table: str) -> Mapping[str, Any]:
        state = self.states[table]
        operation = self._random.choice(["insert", "insert", "update", "move", "delete"]) if state else "insert"
        before = None if operation == "insert" else state.pop(self._random.choice(sorted(state)))
        after = None
        if operation != "delete":
            free = self._random.choice([one for one in range(len(state) + 5) if one not in state])
            key = before["id"] if before is not None and operation == "update" else free
            after = {
                "id": key,
                "name": self._random.choice(["", "é", None, "x" * 9]),
                "n": self._random.randrange(*_VALUES[self.n_type]),
            }
            after |= {one: f"{self._random.randrange(9_999)}.125" for one in self._added[table]}
            state[key] = after
        self.sent[table] += 1
        return self._message(table, "update" if before and after else operation, before, after)

    def _message(self, table: str, operation: str, before: Row | None, after: Row | None) -> Mapping[str, Any]:
        database, _, name = table.partition(".")
        added = self._added[table]
        self._place += 1
        if self._form == "debezium-json":
            if operation == "ddl":
                return {"source": {"db": database, "table": name}, "databaseName": database, "ddl": "ALTER TABLE ..."}
            source = {"connector": "mysql", "db": database, "table": name, "ts_ms": 1_000 + self._place // 5}
            source |= {"server_id": 1, "file": "binlog.000003", "pos": self._place, "row": 0}
            event = {"op": operation[0].replace("i", "c"), "before": before, "after": after, "source": source}
            return {"schema": _connect_schema(added), "payload": event} if self._says_columns else event
        message = {"database": database, "table": name, "isDdl": operation == "ddl", "id": self._place}
        message |= {"es": 1_000 + self._place // 5, "ts": 2_000 + self._place // 5, "type": operation.upper()}
        if operation == "ddl":
            return {**message, "type": "ALTER", "data": None, "sql": "ALTER TABLE ..."}
        if self._says_columns:
            more = dict.fromkeys(added, "decimal(12,3)")
            message["mysqlType"] = {"id": "bigint(20)", "name": "varchar(20)", "n": self.n_type, **more}
            message["pkNames"] = self.keys.get(table)
        old = None
        if before is not None and after is not None:
            old = [{one: _text(text) for one, text in before.items() if after[one] != text}]
        return {**message, "data": [{one: _text(text) for one, text in (after or before or {}).items()}], "old": old}


def _connect_schema(added: list[str]) -> Mapping[str, Any]:
    decimal: dict[str, Any] = {"type": "string", "optional": True}  # as with decimal.handling.mode=string
    row: list[dict[str, Any]] = [
        {"field": "id", "type": "int64"},
        {"field": "name", "type": "string"},
        {"field": "n", "type": "int32"},
    ]
    row += [{"field": one, **decimal} for one in added]
    images = [{"type": "struct", "field": one, "fields": row} for one in ("before", "after")]
    return {"type": "struct", "name": "Envelope", "fields": images}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
