"""Where a query with a new checkpoint starts: where the rows end that are in the table already. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spark_source.offsets import Offsets
from tubeclient.keys import PartitionKey

__all__ = ["later_of", "starting_offsets"]


def later_of(one: Mapping[PartitionKey, int], other: Mapping[PartitionKey, int]) -> Offsets:
    """The higher offset of each partition that either names.

    The offsets table follows the sink, by one batch at most, so the sink's own record is as a rule the later one. Where
    the table is later, another job of the group went on from here.
    """
    return Offsets.of({p: max(one.get(p, 0), other.get(p, 0)) for p in {*one, *other}})


def starting_offsets(known: Mapping[PartitionKey, int], topics: tuple[str, ...], fallback: str) -> str:
    """The option startingOffsets for a group that has read `topics` up to `known`, as far as it has.

    A partition that appeared meanwhile is read from its beginning. Where a whole topic is unknown, partitions that are
    not named start by `fallback`, the value of startingOffsets for a first run.
    """
    ours = Offsets.of({partition: at for partition, at in known.items() if partition.topic in topics})
    if not ours:
        return fallback
    if {partition.topic for partition in ours}.issuperset(topics):
        entries: dict[str, Any] = {"default": "earliest"}
    else:
        entries = json.loads(fallback) if fallback.lstrip().startswith("{") else {"default": fallback}
    # Last, so that they prevail over entries of the fallback.
    return json.dumps({**entries, **ours.to_dict()})
