"""A MySQL-like history of many tables, as Canal and Debezium send it, and the states that it ends in."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final, Literal

from embedded_tubemq import NewMessage

__all__ = ["Database", "Form"]

Form = Literal["canal-json", "debezium-json"]
Row = dict[str, Any]

STORES: Final = 2
_STORE_PARTITIONS: Final = 10_000


class Database:
    """Rows of (id BIGINT, name STRING, n INT), by table as database.table, and by their ids."""

    def __init__(self, form: Form, tables: list[str], seed: int) -> None:
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
            after = {"id": key, "name": self._random.choice(["", "é", None, "x" * 9]), "n": self._random.randrange(99)}
            state[key] = after
        self.sent[table] += 1
        return self._message(table, "update" if before and after else operation, before, after)

    def _message(self, table: str, operation: str, before: Row | None, after: Row | None) -> Mapping[str, Any]:
        database, _, name = table.partition(".")
        self._place += 1
        if self._form == "debezium-json":
            if operation == "ddl":
                return {"source": {"db": database, "table": name}, "databaseName": database, "ddl": "ALTER TABLE ..."}
            source = {"connector": "mysql", "db": database, "table": name, "ts_ms": 1_000 + self._place // 5}
            source |= {"server_id": 1, "file": "binlog.000003", "pos": self._place, "row": 0}
            return {"op": operation[0].replace("i", "c"), "before": before, "after": after, "source": source}
        message = {"database": database, "table": name, "isDdl": operation == "ddl", "id": self._place}
        message |= {"es": 1_000 + self._place // 5, "ts": 2_000 + self._place // 5, "type": operation.upper()}
        if operation == "ddl":
            return {**message, "type": "ALTER", "data": None, "sql": "ALTER TABLE ..."}
        old = None
        if before is not None and after is not None:
            old = [{one: _text(text) for one, text in before.items() if after[one] != text}]
        return {**message, "data": [{one: _text(text) for one, text in (after or before or {}).items()}], "old": old}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
