"""What the value of a column that partitions a table may be. Pure.

Delta writes a partition's value as the name of a folder, NAME=VALUE, at the latest when OPTIMIZE rewrites its files.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ESCAPED", "NULL", "REASON", "TEXT", "is_refused", "room"]

REASON: Final = "the target is partitioned by {}, and this value cannot be in a folder's name: "
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""As a value it says that there is none, and so does an empty one."""
ESCAPED: Final = r"""[\x01-\x1f\x7f"#%'*/:=?\\{\[\]^]"""
"""Characters that are written as three (Spark's ExternalCatalogUtils)."""
TEXT: Final = "it is empty or too long, or has U+0000"
_MOST_BYTES: Final = 255
"""Of a folder's name on most file systems."""


def room(name: str) -> int:
    """How many bytes a value of the column may have, each escaped character as three."""
    return _MOST_BYTES - len(f"{re.sub(ESCAPED, '...', name)}=".encode())


def is_refused(values: pa.Array, name: str) -> pa.Array:
    """Which texts of the column cannot partition the table; false for null."""
    size = pc.add(pc.binary_length(values), pc.multiply(pc.count_substring_regex(values, ESCAPED), 2))
    refused = pc.or_(pc.is_in(values, pa.array(["", NULL])), pc.match_substring(values, "\x00"))
    return pc.fill_null(pc.or_(refused, pc.greater(size, room(name))), False)
