"""Where a query with a new checkpoint starts: where the rows end that are in the table already. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from spark_source.offsets import Offsets
from tubeclient.keys import PartitionKey

__all__ = ["known_positions", "starting_offsets"]


def known_positions(
    in_sink: Mapping[PartitionKey, int], in_table: Mapping[PartitionKey, int], topics: Iterable[str], explicit: bool
) -> Offsets:
    """Where the group stands in `topics`: where its rows in the sink end, and else where the offsets table has it.

    The offsets table counts only for topics of which the sink has nothing: it follows the sink by up to a batch, and
    where it is ahead, the rows went to another sink. It does not count where the user has said where to start.
    """
    known_topics = {partition.topic for partition in in_sink}
    kept = {} if explicit else {p: at for p, at in in_table.items() if p.topic not in known_topics}
    return Offsets.of({p: at for p, at in {**kept, **in_sink}.items() if p.topic in set(topics)})


def starting_offsets(known: Offsets, topics: tuple[str, ...], fallback: str) -> str:
    """The option startingOffsets for a group that has read `topics` up to `known`, as far as it has.

    A partition that appeared meanwhile is read from its beginning. Where a whole topic is unknown, partitions that are
    not named start by `fallback`, the value of startingOffsets for a first run.
    """
    if not known:
        return fallback
    if {partition.topic for partition in known}.issuperset(topics):
        entries: dict[str, Any] = {"default": "earliest"}
    else:
        entries = json.loads(fallback) if fallback.lstrip().startswith("{") else {"default": fallback}
    # Last, so that they prevail over entries of the fallback.
    return json.dumps({**entries, **known.to_dict()})
