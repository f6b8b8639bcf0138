"""Canal's messages in JSON (`canal.mq.flatMessage=true`): the rows of a statement, whose values are texts.

By Canal's sources at e20e4424 (1.1.9-SNAPSHOT): the classes FlatMessage, MQMessageUtils and LogEventConvert. `data` has
the rows, of an update as they are now, and `old` for each of them what the update changed. Columns that MySQL left out
of a row, as it does with binlog_row_image=MINIMAL or NOBLOB, are missing there. A message names no place in MySQL's
log: it has `es`, the database's time in whole seconds; `ts`, Canal's own; `id`, which Canal's batch had; and with GTIDs
the transaction's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tubeclient.records.changes import ABSENT, Image, Order, Row, Rows
from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import Node, Shape, fields_of, parse_object, syntax_of
from tubeclient.records.log_places import gtid_place, text_of, whole_number
from tubeclient.records.spec import Column, RecordSpec, columns_of
from tubeclient.records.values import Values

_OF_ROWS: Final = ("insert", "update", "delete")
_LOG: Final = "canal"
"""Canal's stream, which is in the order of MySQL's log."""


def canal_reader(spec: RecordSpec) -> Callable[[str], list[Row]]:
    """How a message's text is read."""
    return _CanalReader(spec).read


class _CanalReader:
    def __init__(self, spec: RecordSpec) -> None:
        self._syntax = syntax_of(spec.options)
        self._rows = Rows(spec)
        self._values = Values(spec)
        self._width = len(columns_of(spec))
        rows: Mapping[str, Shape] = {column.name: True for column in columns_of(spec)}
        names = ("type", "isDdl", "ddl", "es", "ts", "id", "gtid")
        self._shape: Shape = {**dict.fromkeys(names, True), **dict.fromkeys(("data", "old"), rows)}

    def read(self, text: str) -> list[Row]:
        """The rows of a message. BadRecord: it is none, or one of its rows is bad."""
        message = fields_of(parse_object(text, self._syntax, self._shape))
        order = _order(message)
        kind = text_of(message.get("type")).lower()
        if not kind:
            raise BadRecord("type is missing")
        is_ddl = any(_is_true(message.get(name)) for name in ("isDdl", "ddl"))
        data = _list(message, "data")
        if kind == "snapshot":  # that is a row of Debezium's
            raise BadRecord("type is not one of Canal's")
        if is_ddl or kind not in _OF_ROWS:
            if data and not is_ddl:
                raise BadRecord("there are rows, but type is not INSERT, UPDATE or DELETE", message["data"].start)
            return self._rows.nothing("ddl" if is_ddl and kind != "truncate" else kind, order)
        if not data:
            raise BadRecord("there are no rows in data")
        old = _list(message, "old") if kind == "update" else []
        self._values.begin()
        self._values.take(2 * len(data) * self._width, message["data"].start)  # an update may be two rows
        rows: list[Row] = []
        for number, node in enumerate(data):
            if node.kind == "null":
                raise BadRecord("a row in data is null", node.start)
            now = _fields(node, "data")
            image = self._image(now, text)
            if kind != "update":
                rows.append(self._rows.row(kind, image, order, number))
                continue
            has_old = number < len(old) and old[number].kind != "null"
            before = self._image({**now, **_fields(old[number], "old")}, text) if has_old else None
            rows += self._rows.update(before, image, order, number)
        return rows

    def _image(self, fields: Mapping[str, Node], text: str) -> Image:
        def value(column: Column) -> Any:
            node = fields.get(column.name)
            if node is None:
                return ABSENT
            if node.kind == "null":
                return None
            # Flink writes numbers and booleans as such.
            written = node.value if node.kind == "text" else text[node.start : node.end]
            return self._values.of_text(written, column, column.name, node.start)

        return value


def _order(message: Mapping[str, Node]) -> Order:
    """Within a transaction by Canal's clock and batch, which are in the order of the log; so without GTIDs too."""
    found = gtid_place(text_of(message.get("gtid")))
    log, position = (_LOG, []) if found is None else (found[0], [found[1]])
    for name in ("ts", "id"):
        number = whole_number(message.get(name), name)
        if number is not None:
            position.append(number)
    return Order(whole_number(message.get("es"), "es"), log if position else None, position)


def _list(message: Mapping[str, Node], name: str) -> list[Node]:
    node = message.get(name)
    if node is None or node.kind == "null":
        return []
    if node.kind != "list":
        raise BadRecord(f"{name} is not a list", node.start)
    found: list[Node] = node.value
    return found


def _fields(node: Node, name: str) -> Mapping[str, Node]:
    if node.kind != "object":
        raise BadRecord(f"a row in {name} is not an object", node.start)
    return fields_of(node)


def _is_true(node: Node | None) -> bool:
    return node is not None and (node.value is True or text_of(node).lower() == "true")
