"""What the value of a column that partitions a table may be, and the folders of its files. Pure.

A value is the name of a folder, NAME=VALUE, as Hive and Spark write it. Delta has it in its log too, but some readers,
as Polars, take it from there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ESCAPED", "NULL", "REASON", "TEXT", "folders", "is_refused", "room"]

REASON: Final = "the target is partitioned by {}, and this value cannot be in a folder's name: "
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""As a value it says that there is none, and so does an empty one."""
ESCAPED: Final = r"""[\x01-\x1f\x7f"#%'*/:=?\\{\[\]^]"""
"""Characters that are written as three (Spark's ExternalCatalogUtils)."""
TEXT: Final = "it is empty or too long, or has U+0000"
_NOT_IN_PATHS: Final = re.compile(f"{ESCAPED[:-1]}\x80-\U0010ffff]")
_MOST_BYTES: Final = 255
"""Of a folder's name on most file systems."""


def folders(values: Mapping[str, str | None]) -> str:
    """The path of the folders for rows with these values by column; ends with a slash, unless there are none.

    Always ASCII: in its log delta-rs writes other characters as bytes, and Spark's VACUUM takes such files for those of
    no table. There are no folders where a name would be too long so.
    """
    pairs = ((_escaped(name), NULL if value is None else _escaped(value)) for name, value in values.items())
    names = [f"{name}={value}" for name, value in pairs]
    return "".join(f"{name}/" for name in names) if max(map(len, names), default=0) <= _MOST_BYTES else ""


def _escaped(text: str) -> str:
    return _NOT_IN_PATHS.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def room(name: str) -> int:
    """How many bytes a value of the column may have, each escaped character as three."""
    return _MOST_BYTES - len(f"{re.sub(ESCAPED, '...', name)}=".encode())


def is_refused(values: pa.Array, name: str) -> pa.Array:
    """Which texts of the column cannot partition the table; false for null."""
    size = pc.add(pc.binary_length(values), pc.multiply(pc.count_substring_regex(values, ESCAPED), 2))
    refused = pc.or_(pc.is_in(values, pa.array(["", NULL])), pc.match_substring(values, "\x00"))
    return pc.fill_null(pc.or_(refused, pc.greater(size, room(name))), False)
