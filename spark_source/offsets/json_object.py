"""Strict JSON objects in options: json.loads silently keeps the last of two equal names."""

from __future__ import annotations

import json
from typing import Any

from tubeclient.errors import ConfigurationError

__all__ = ["json_object"]


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
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
