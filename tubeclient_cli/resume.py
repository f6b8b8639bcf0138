"""Where a query with a new checkpoint starts: where the rows end that are in the table already. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from spark_source.offsets import Offsets
from tubeclient.keys import PartitionKey

__all__ = ["known_positions", "start_text", "starting_offsets"]


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


def start_text(
    known: Offsets, in_sink: Mapping[PartitionKey, int], topics: tuple[str, ...], fallback: str, explicit: bool
) -> str:
    """Say where a new checkpoint begins, and who says so; the arguments are those of the functions above."""
    sink_topics = {partition.topic for partition in in_sink}
    of_sink = [partition for partition in known if partition.topic in sink_topics]
    of_table = [partition for partition in known if partition.topic not in sink_topics]
    unknown = sorted(set(topics).difference(partition.topic for partition in known))
    places = [
        f"{where}, in {_partitions(partitions)}"
        for where, partitions in (
            ("where the group's rows in the target end", of_sink),
            ("where the offsets table has the group", of_table),
        )
        if partitions
    ]
    if unknown:
        chosen = "startingOffsets" if explicit else "as nothing is known of the group there"
        places.append(f"at {fallback} in {', '.join(unknown)} ({chosen})")
    return f"the checkpoint is new and begins {'; '.join(places)}"


def _partitions(partitions: Collection[PartitionKey]) -> str:
    plural = "partition" if len(partitions) == 1 else "partitions"
    return f"{len(partitions):,} {plural} of {', '.join(sorted({partition.topic for partition in partitions}))}"
