"""Where a run begins: where the group's rows in the target end. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from spark_source.offsets.offsets import Offsets
from spark_source.options.parsers import moment_ms
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.printable import counted
from tubeclient_ingest.settings import GROUP, TARGET

__all__ = ["ahead_of_sink", "known_positions", "of_topics", "start_text", "starting_offsets"]


def known_positions(
    in_sink: Mapping[PartitionKey, int],
    in_table: Mapping[PartitionKey, int],
    topics: Iterable[str],
    starting: str | None,
) -> Offsets:
    """The group's positions in `topics`: the end of its rows in the sink, otherwise its position in the offsets table.

    The offsets table follows the sink, so it counts only for topics without rows in the sink. If it is ahead anyway,
    those rows went elsewhere, and starting there would leave them out of this sink for good. The user must ask for that
    with `starting` "group", which takes the later of the two in each partition. With any other `starting` but "target"
    or None (not given) the offsets table does not count. A partition that waits for its broker, and has no position in
    either, keeps waiting with the same starting text.
    """
    sink, table = Offsets.of(in_sink), Offsets.of(in_table)
    if starting == GROUP:
        later = Offsets({p: max(at, sink.get(p, at)) for p, at in table.items()}).with_waiting(table.waiting)
        return of_topics(sink.merge(later), topics)
    known_topics = {partition.topic for partition in (*sink, *sink.waiting)}
    others = {partition.topic for partition in (*table, *table.waiting)} - known_topics
    kept = of_topics(table, others) if starting in (None, TARGET) else Offsets({})
    return of_topics(kept.merge(sink), topics)


def ahead_of_sink(
    in_sink: Mapping[PartitionKey, int], in_table: Mapping[PartitionKey, int], topics: Iterable[str]
) -> Offsets:
    """The offsets table's positions past the end of the group's rows, in topics that the sink has."""
    known_topics = {partition.topic for partition in in_sink}
    ahead = {p: at for p, at in in_table.items() if p.topic in known_topics and at > in_sink.get(p, 0)}
    return of_topics(Offsets.of(ahead), topics)


def of_topics(offsets: Offsets, topics: Iterable[str]) -> Offsets:
    """The part of `offsets` that is in `topics`, waiting partitions included."""
    names = set(topics)
    return offsets.without({key for key in (*offsets, *offsets.waiting) if key.topic not in names})


def starting_offsets(known: Offsets, topics: tuple[str, ...], fallback: str) -> str:
    """The option startingOffsets for a group that has read `topics` up to `known`.

    A new partition of a known topic is read from its beginning. An unknown topic starts by `fallback`, the
    setting for a first run. ConfigurationError if that is a time: the source takes times or offsets, not both.
    """
    if not (known or known.waiting):
        return fallback
    unknown = sorted(set(topics).difference(partition.topic for partition in (*known, *known.waiting)))
    if not unknown:
        entries: dict[str, Any] = {"default": "earliest"}
    elif moment_ms(fallback, "starting-offsets") is not None:
        raise ConfigurationError(
            f"starting-offsets is the time {fallback}, which is for a first run; the group already has rows or a "
            f"position in some topics, but none in {', '.join(unknown)}. Give those as JSON from partition keys to "
            "offsets, or read them with a group of their own"
        )
    else:
        entries = json.loads(fallback) if fallback.lstrip().startswith("{") else {"default": fallback}
    # Last, so that they override entries of the fallback.
    return json.dumps({**entries, **known.to_dict()})


def start_text(
    known: Offsets,
    in_sink: Mapping[PartitionKey, int],
    in_table: Mapping[PartitionKey, int],
    topics: tuple[str, ...],
    starting: str | None,
    begin_anew: Collection[str] = (),
) -> str:
    """Say where a run begins, and why. The arguments are those of the functions above; `begin_anew` are the
    topics that the user wants to begin anew."""
    of_sink = [partition for partition, at in known.items() if in_sink.get(partition) == at]
    of_table = [partition for partition in known if partition not in set(of_sink)]
    unknown = sorted(set(topics).difference(partition.topic for partition in (*known, *known.waiting)))
    places = [
        f"{where}, in {_partitions(partitions)}"
        for where, partitions in (
            ("where the group's rows in the target end", of_sink),
            ("where the offsets table has the group", of_table),
        )
        if partitions
    ]
    nothing_said = starting in (None, TARGET)
    chosen = "as nothing is known of the group there" if nothing_said else "startingOffsets"
    new = [name for name in unknown if name not in begin_anew]
    anew = [name for name in unknown if name in begin_anew]
    places += [
        f"at {'earliest' if nothing_said else starting} in {', '.join(names)} ({why})"
        for names, why in ((new, chosen), (anew, "which is begun anew"))
        if names
    ]
    if known.waiting:
        places.append(f"by their starting texts, once their brokers answer, in {_partitions(known.waiting)}")
    text = f"begins {'; '.join(places)}"
    ahead = ahead_of_sink(in_sink, in_table, topics)
    if ahead and starting != GROUP:
        text += (
            f". The offsets table is ahead of the target in {_partitions(ahead)}: the group was read elsewhere, or"
            " was moved forward, or the target was restored. This target still gets those messages;"
            f" to leave them out, start with starting-offsets {GROUP}"
        )
    return text


def _partitions(partitions: Collection[PartitionKey]) -> str:
    return (
        f"{counted(len(partitions), 'partition')} of {', '.join(sorted({partition.topic for partition in partitions}))}"
    )
