"""Debezium's events in JSON: a row before and after a change, alone or as `payload` beside its `schema`.

By Debezium's documentation and sources at aad55199 (3.7.0-SNAPSHOT) of MySQL, MariaDB, PostgreSQL, SQL Server, Oracle,
Db2 and Informix: the classes Envelope, SchemaFactory, HeartbeatImpl and TransactionMonitor. MongoDB writes rows as
texts, which are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from tubeclient.records.changes import ABSENT, Image, Order, Row, Rows
from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import Node, Shape, fields_of, parse_object, syntax_of
from tubeclient.records.log_places import NAMES, source_place, text_of, whole_number
from tubeclient.records.logical_types import LogicalValues, Types, row_types
from tubeclient.records.spec import Column, RecordSpec, columns_of
from tubeclient.records.unavailable import PLACEHOLDER, Unavailable
from tubeclient.records.values import bytes_of

OPERATIONS: Final = {
    "c": "insert",
    "r": "snapshot",
    "u": "update",
    "d": "delete",
    "t": "truncate",
    "m": "message",
}
"""By what `op` says."""
_OF_NO_ROW: Final = ("truncate", "message")
_READ: Final = ("true", "first", "first_in_data_collection", "last_in_data_collection", "last", "incremental")
"""`source.snapshot` of a row that a snapshot read. A connector may be made to write such rows as inserts."""

_SHAPES: Final[tuple[tuple[str, frozenset[str], frozenset[str]], ...]] = (
    ("heartbeat", frozenset({"ts_ms"}), frozenset()),
    ("transaction", frozenset({"status", "id", "event_count"}), frozenset({"data_collections", "ts_ms"})),
    (
        "ddl",
        frozenset({"source", "databaseName", "ddl"}),
        frozenset({"ts_ms", "ts_us", "ts_ns", "schemaName", "tableChanges"}),
    ),
)
"""What has no `op`: the fields that it has, and those that it may have. Older versions write fewer."""

_SET_SCHEMA: Final = "set the converter's schemas.enable=true"
_NUMBERS: Final = {
    "date": f"is a number for a DATE: {_SET_SCHEMA}, or make the column INT",
    "timestamp": f"is a number for a TIMESTAMP: {_SET_SCHEMA}, or make the column BIGINT",
    "timestamp_ntz": f"is a number for a TIMESTAMP_NTZ: {_SET_SCHEMA}, or make the column BIGINT",
}
_DIGITS: Final = re.compile(r"[0-9+]*")
_BYTES: Final = f"is bytes for a DECIMAL: {_SET_SCHEMA}, or the connector's decimal.handling.mode=string"


def debezium_reader(spec: RecordSpec) -> Callable[[str], list[Row]]:
    """How an event's text is read. ConfigurationError: an option is wrong."""
    return _DebeziumReader(spec).read


class _DebeziumReader:
    def __init__(self, spec: RecordSpec) -> None:
        self._syntax = syntax_of(spec.options)
        self._rows = Rows(spec)
        self._values = LogicalValues(spec)
        given = spec.options.get(PLACEHOLDER)
        self._unavailable = Unavailable() if given is None else Unavailable(given)
        row: Mapping[str, Shape] = {column.name: True for column in columns_of(spec)}
        event: Mapping[str, Shape] = {
            **dict.fromkeys(("op", "ts_ms"), True),
            **dict.fromkeys(("before", "after"), row),
            "source": dict.fromkeys(NAMES, True),
            "transaction": {"total_order": True},
        }
        self._shape: Shape = {**event, "schema": False, "payload": event}

    def read(self, text: str) -> list[Row]:
        """The rows of an event. BadRecord: it is none."""
        self._values.begin()
        if text.strip(" \t\r\n") in ("", "null"):
            return self._rows.nothing("tombstone", Order(None, None, []))
        event = fields_of(parse_object(text, self._syntax, self._shape))
        types: Mapping[str, Types] = {}
        payload = event.get("payload")
        if payload is not None and payload.kind == "object" and "op" not in event:
            if (schema := event.get("schema")) is not None and schema.kind == "object":
                types = row_types(text[schema.start : schema.end])
            event = fields_of(payload, "payload")
        op = event.get("op")
        if op is None or op.kind == "null":
            other = self._without_op(text)
            return self._rows.nothing(other, _order(event, other, _object(event, "source") or {}))
        operation = OPERATIONS.get(text_of(op))
        if operation is None:
            raise BadRecord("op is not one of Debezium's", op.start)
        source = _object(event, "source") or {}
        order = _order(event, operation, source)
        if operation in _OF_NO_ROW:
            return self._rows.nothing(operation, order)
        before = self._image(_object(event, "before"), types.get("before", {}), text)
        after = self._image(_object(event, "after"), types.get("after", {}), text)
        image = before if operation == "delete" else after
        if image is None:
            raise BadRecord("there is no row in after, or for a delete in before")
        if operation == "update":
            return self._rows.update(before, image, order)
        return [self._rows.row(operation, image, order)]

    def _without_op(self, text: str) -> str:
        """What it is that has no `op`: one of `_SHAPES`, with all of its fields and no others."""
        event = fields_of(parse_object(text, self._syntax), None)
        if (payload := event.get("payload")) is not None and event.keys() <= {"schema", "payload"}:
            if payload.kind == "null":
                return "tombstone"
            event = fields_of(payload, None) if payload.kind == "object" else {}
        for operation, needed, possible in _SHAPES:
            if needed <= event.keys() <= needed | possible and _is_one(operation, event):
                return operation
        raise BadRecord("op is missing")

    def _image(self, fields: Mapping[str, Node] | None, types: Types, text: str) -> Image | None:
        """A row's values, from the fields of `before` or `after`."""
        if fields is None:
            return None

        def value(column: Column) -> object:
            node = fields.get(column.name)
            if node is None or self._unavailable.is_it(node):
                return ABSENT
            logical = types.get(column.name)
            if logical is None and node.kind == "number" and column.kind in _NUMBERS:
                raise BadRecord(f"{column.name} {_NUMBERS[column.kind]}", node.start)
            try:
                return self._values.of_node(node, logical, column, text, column.name)
            except BadRecord:
                if logical is None and column.kind == "decimal" and _is_bytes(node):
                    raise BadRecord(f"{column.name} {_BYTES}", node.start) from None
                raise

        return value


def _order(event: Mapping[str, Node], operation: str, source: Mapping[str, Node]) -> Order:
    """A snapshot is as of its place in the log, and its time is the connector's, which nothing is compared with."""
    is_read = operation == "snapshot" or (operation == "insert" and text_of(source.get("snapshot")) in _READ)
    log, position = source_place(source, event.get("transaction"), is_read=is_read) if source else (None, [])
    if is_read:
        return Order(None, log, position)
    time = whole_number(source.get("ts_ms"), "source.ts_ms")
    return Order(whole_number(event.get("ts_ms"), "ts_ms") if time is None else time, log, position)


def _object(event: Mapping[str, Node], name: str) -> Mapping[str, Node] | None:
    node = event.get(name)
    if node is None or node.kind == "null":
        return None
    if node.kind != "object":
        raise BadRecord(f"{name} is not an object", node.start)
    return fields_of(node, name)


def _is_one(operation: str, event: Mapping[str, Node]) -> bool:
    """Whether the fields that tell the shape have values as Debezium writes them."""
    if operation == "heartbeat":
        return event["ts_ms"].kind == "number"
    if operation == "transaction":
        return text_of(event["status"]) in ("BEGIN", "END") and event["id"].kind == "text"
    return event["source"].kind == "object" and event["ddl"].kind in ("text", "null")


def _is_bytes(node: Node) -> bool:
    """Whether it is what Debezium writes for a decimal where nothing is set: its bytes, or those beside a scale."""
    if node.kind == "object":
        return {name for name, _ in node.value} == {"scale", "value"}
    return node.kind == "text" and bytes_of(node.value) is not None and _DIGITS.fullmatch(node.value) is None
