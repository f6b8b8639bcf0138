"""Strict JSON objects in options: json.loads silently keeps the last of two equal names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from tubeclient.errors import ConfigurationError

__all__ = ["json_object", "put_once"]

Key = TypeVar("Key")
Value = TypeVar("Value")


def json_object(text: str, option: str) -> dict[str, Any] | None:
    """Return the object in `text`, or None if it is not an object. ConfigurationError for a repeated name."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError(f"{option} names {twice!r} twice; keep one of the entries")
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except ConfigurationError:
        raise
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def put_once(found: dict[Key, Value], more: Mapping[Key, Value], option: str) -> None:
    """Add `more` to `found`. ConfigurationError for what `option` names twice in different spellings, as 1:t:0 and
    01:t:0."""
    for key, value in more.items():
        if key in found:
            raise ConfigurationError(f"{option} names {key} twice; keep one of the entries")
        found[key] = value
