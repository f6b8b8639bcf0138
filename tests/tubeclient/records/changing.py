"""Changes of tests: messages, and the rows that the plain code makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tests.tubeclient.records.reading import plain, spec
from tubeclient.records.decoder import Decoder
from tubeclient.records.spec import RecordSpec

COLUMNS: dict[str, Any] = {"id": pa.int64(), "name": pa.string(), "price": pa.decimal128(20, 10)}
ROW: dict[str, Any] = {"id": 1, "name": "x", "price": 1.5}
MYSQL: dict[str, Any] = {
    "connector": "mysql",
    "name": "shop",
    "db": "d",
    "ts_ms": 5_000,
    "snapshot": "false",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 154,
    "row": 2,
}
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
PLACEHOLDER = "__debezium_unavailable_value"


def debezium(columns: Mapping[str, Any] = COLUMNS, required: tuple[str, ...] = (), **more: Any) -> RecordSpec:
    return spec("debezium-json", columns, required, **more)


def canal(columns: Mapping[str, Any] = COLUMNS, required: tuple[str, ...] = (), **more: Any) -> RecordSpec:
    return spec("canal-json", columns, required, **more)


def event(op: str, source: Mapping[str, Any] | None = None, **images: Any) -> dict[str, Any]:
    """An event of Debezium's."""
    return {"before": None, "after": None, "source": source or {}, "op": op, "ts_ms": 99, **images}


def message(kind: str, *data: Any, **more: Any) -> dict[str, Any]:
    """A message of Canal's."""
    return {"data": [*data] or None, "type": kind, "es": 5, "ts": 6, "id": 7, "isDdl": False, "old": None, **more}


def changes(one: RecordSpec, *bodies: Any) -> list[Any]:
    """For each message its rows, or its reason without the place. Messages that are not bytes are written as JSON."""
    values = [body if isinstance(body, bytes | None) else json.dumps(body).encode() for body in bodies]
    decoded = Decoder(one, core=False).decode(pa.array(values, pa.binary()))
    decoded.records.validate(full=True)
    found: list[Any] = []
    for rows, reason in zip(plain(decoded.records), decoded.reasons.to_pylist(), strict=True):
        assert (rows is None) == (reason is not None)
        found.append(rows if reason is None else reason.partition(", at byte")[0])
    return found


def short(one: RecordSpec, *bodies: Any) -> list[Any]:
    """The same, each row as its operation, the columns' values, and those that are absent if there are any."""
    found = []
    for rows in changes(one, *bodies):
        found.append(rows if isinstance(rows, str) else [_short(dict(row)) for row in rows])
    return found


def _short(row: dict[str, Any]) -> tuple[Any, ...]:
    change = row.pop("change")
    values = [str(value) if hasattr(value, "as_tuple") else value for value in row.values()]
    return change["operation"], *values, *([change["absent"]] if change["absent"] is not None else [])


def orders(one: RecordSpec, *bodies: Any) -> list[Any]:
    """Of each message's last row: the time, the log and the place in it."""
    found = []
    for rows in changes(one, *bodies):
        assert not isinstance(rows, str), rows
        sequence = rows[-1]["change"]["sequence"]
        assert (sequence["round"], sequence["place"]) == (None, None)
        found.append((sequence["time"], sequence["log"], sequence["position"]))
    return found


def newest(one: RecordSpec, *bodies: Any) -> Any:
    """Which of the messages, all of one log, is the last there: its number."""
    found = orders(one, *bodies)
    assert len({log for _, log, _ in found}) == 1
    places = [position for _, _, position in found]
    assert places.count(max(places)) == 1
    return places.index(max(places))
