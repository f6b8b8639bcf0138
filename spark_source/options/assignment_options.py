"""The options of the assignment: the strategy's name, and its hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from spark_source.offsets.json_object import json_object, put_once
from tubeclient.assignment import STRATEGIES, Hints, strategy_named
from tubeclient.keys import PartitionKey, is_int32

__all__ = ["assignment_hints", "assignment_strategy"]

_WRITE = 'write JSON of rooms, nodeRooms, plan and virtualNodes, as in {"rooms": {"1": "east", "2": "west"}}'

_Named = TypeVar("_Named")


def assignment_strategy(value: str) -> str:
    """A strategy's name in any case, or package.module:function of one that can be imported."""
    stripped = value.strip()
    if ":" in stripped:
        strategy_named(stripped)
        return stripped
    if stripped.lower() not in STRATEGIES:
        raise ValueError(f"is {value!r}; write one of {', '.join(STRATEGIES)}, or package.module:function of your own")
    return stripped.lower()


def assignment_hints(value: str) -> Hints:
    """JSON with data for strategies."""
    entries = json_object(value, "assignmentHints")
    if not entries:
        raise ValueError(f"is {value!r}; {_WRITE}")
    strange = sorted(entries.keys() - {"rooms", "nodeRooms", "plan", "virtualNodes"})
    if strange:
        raise ValueError(f"has the unknown entry {strange[0]!r}; {_WRITE}")
    virtual_nodes = entries.get("virtualNodes", Hints.virtual_nodes)
    if not _is_count(virtual_nodes) or not virtual_nodes:
        raise ValueError(f"has virtualNodes {virtual_nodes!r}; write a whole number from 1 on")
    return Hints(
        rooms=_mapping(entries, "rooms", _id, _is_room, 'from broker ids to rooms, as in {"1": "east"}'),
        node_rooms=_mapping(entries, "nodeRooms", _id, _is_room, 'from node ids to rooms, as in {"0": "east"}'),
        plan=_mapping(
            entries, "plan", PartitionKey.parse, _is_count, 'from partition keys to node ids, as in {"1:clicks:0": 0}'
        ),
        virtual_nodes=virtual_nodes,
    )


def _mapping(
    entries: dict[str, Any],
    name: str,
    parse: Callable[[str], _Named],
    is_value: Callable[[Any], bool],
    write: str,
) -> dict[_Named, Any] | None:
    if name not in entries:
        return None
    found = entries[name]
    if not isinstance(found, dict):
        raise ValueError(f"has {name} {found!r}; write an object {write}")
    for value in found.values():
        if not is_value(value):
            raise ValueError(f"has {value!r} in {name}; write an object {write}")
    parsed: dict[_Named, Any] = {}
    for key, value in found.items():
        put_once(parsed, {parse(key): value}, f"{name} in assignmentHints")
    return parsed


def _id(text: str) -> int:
    if not is_int32(text):
        raise ValueError(f"has the id {text!r}; write a whole number")
    return int(text)


def _is_room(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
