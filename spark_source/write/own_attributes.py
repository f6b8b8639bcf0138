"""The attributes of records as texts, in columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.write.made import bad_row
from tubeclient.inlong.attributes import DATA_TIME, KEYS_OF_ORIGIN

__all__ = ["own_attributes"]

_PAIRS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())]))


def own_attributes(times_ms: pa.Int64Array, maps: pa.MapArray | None, first_row: int) -> pa.Array:
    """Return a text of attributes for each record: its time, and those of its map.

    Attributes that say where a record comes from are left out: columns give them. The ConfigurationError for an
    attribute that no parser would return unchanged names the row; `first_row` is the first one's number.
    """
    parts: list[Any] = [f"{DATA_TIME}=", times_ms.cast(pa.string())]
    if maps is not None:
        parts.append(_texts(maps.cast(_PAIRS), first_row))
    return pc.binary_join_element_wise(*parts, "")


def _texts(maps: pa.ListArray, first_row: int) -> pa.Array:
    """For each row `&key=value` as often as it has attributes."""
    pairs, rows = pc.list_flatten(maps), pc.list_parent_indices(maps)
    own = pc.invert(pc.is_in(pairs.field("key"), pa.array(KEYS_OF_ORIGIN, pa.string())))
    pairs, rows = pairs.filter(own), rows.filter(own)
    keys, values = pairs.field("key"), pairs.field("value")
    _check(pc.is_null(values), rows, keys, first_row, "has no value")
    wrong_keys = pc.or_(pc.equal(keys, ""), pc.match_substring_regex(keys, "[=&]"))
    _check(wrong_keys, rows, keys, first_row, "cannot be in a pack: keys are not empty and hold neither '=' nor '&'")
    _check(pc.match_substring(values, "&"), rows, keys, first_row, "cannot be in a pack: its value holds '&'")
    counts = np.bincount(rows.to_numpy(), minlength=len(maps))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    texts = pc.binary_join_element_wise("&", keys, "=", values, "")
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), "")


def _check(wrong: pa.BooleanArray, rows: pa.Array, keys: pa.Array, first_row: int, reason: str) -> None:
    place = pc.index(wrong, True).as_py()
    if place >= 0:
        key = keys[place].as_py()
        raise bad_row(first_row + rows[place].as_py(), f"column recordAttributes: the attribute {key!r} {reason}")
