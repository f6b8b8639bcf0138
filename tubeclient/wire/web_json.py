"""The JSON of web calls, read and written by the fastest library at hand.

A broker's page of 10 000 partitions is a megabyte. orjson (the extra `speed`) takes a third of the time to read it that
Python's own parser does, and less to write it.
"""

from __future__ import annotations

import json

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

__all__ = ["parse_json", "write_json"]


def parse_json(body: bytes) -> object:
    """Return what `body` holds; ValueError or RecursionError where it is not JSON.

    A whole number of more than 64 bits may come as a float.
    """
    if orjson is not None:
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass  # what it is stricter about may be JSON all the same
    # Apache's servers build their JSON by hand, and line breaks can stand inside its strings.
    return json.loads(body, strict=False)


def write_json(value: object) -> bytes:
    """Return `value` as JSON in UTF-8; TypeError where JSON has no such thing."""
    if orjson is not None:
        try:
            return orjson.dumps(value)
        except orjson.JSONEncodeError:
            pass  # Python's own writes longer numbers, and half of a surrogate pair
    return json.dumps(value).encode()
