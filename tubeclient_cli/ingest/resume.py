"""Where a query with a new checkpoint starts: where the rows end that are in the table already. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.common.moment import moment_ms
from tubeclient_cli.ingest.settings import GROUP, TARGET

__all__ = ["ahead_of_sink", "known_positions", "of_topics", "start_text", "starting_offsets"]


def known_positions(
    in_sink: Mapping[PartitionKey, int],
    in_table: Mapping[PartitionKey, int],
    topics: Iterable[str],
    starting: str | None,
) -> Offsets:
    """Where the group stands in `topics`: where its rows in the sink end, and else where the offsets table has it.

    The offsets table follows the sink and never leads it, so the later of the two is the sink; the table counts for
    topics of which the sink has nothing. Where it is ahead all the same, the rows are not in this sink but elsewhere,
    and going by it would leave them out for good: that is for the user to say, with `starting` "group", which takes the
    later of the two in each partition. With any other `starting` but "target" the table does not count. None: nothing
    was said. A partition that waited for its broker, and has a position in neither of the two, goes on waiting for the
    same place.
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
    """The offsets table's positions that are later than the end of the group's rows, in topics that the sink has."""
    known_topics = {partition.topic for partition in in_sink}
    ahead = {p: at for p, at in in_table.items() if p.topic in known_topics and at > in_sink.get(p, 0)}
    return of_topics(Offsets.of(ahead), topics)


def of_topics(offsets: Offsets, topics: Iterable[str]) -> Offsets:
    """Those of `offsets` in `topics`, of partitions that wait for one too."""
    names = set(topics)
    return offsets.without({key for key in (*offsets, *offsets.waiting) if key.topic not in names})


def starting_offsets(known: Offsets, topics: tuple[str, ...], fallback: str) -> str:
    """The option startingOffsets for a group that has read `topics` up to `known`, as far as it has.

    A partition that appeared meanwhile is read from its beginning. Where a whole topic is unknown, partitions that are
    not named start by `fallback`, what counts for a first run. ConfigurationError where that is a time: the source
    takes times or offsets, not both.
    """
    if not (known or known.waiting):
        return fallback
    unknown = sorted(set(topics).difference(partition.topic for partition in (*known, *known.waiting)))
    if not unknown:
        entries: dict[str, Any] = {"default": "earliest"}
    elif moment_ms(fallback, "starting-offsets") is not None:
        raise ConfigurationError(
            f"starting-offsets is the time {fallback}, which is for a first run; the group has rows or a position in "
            f"some topics already, and in {', '.join(unknown)} it has none. Give those as JSON from partition keys to "
            "offsets, or read them as a group of their own"
        )
    else:
        entries = json.loads(fallback) if fallback.lstrip().startswith("{") else {"default": fallback}
    # Last, so that they prevail over entries of the fallback.
    return json.dumps({**entries, **known.to_dict()})


def start_text(
    known: Offsets,
    in_sink: Mapping[PartitionKey, int],
    in_table: Mapping[PartitionKey, int],
    topics: tuple[str, ...],
    starting: str | None,
    begin_anew: Collection[str] = (),
) -> str:
    """Say where a new checkpoint begins, and who says so; the arguments are those of the functions above, and the
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
        places.append(f"where they were to, when their brokers are heard, in {_partitions(known.waiting)}")
    text = f"the checkpoint is new and begins {'; '.join(places)}"
    ahead = ahead_of_sink(in_sink, in_table, topics)
    if ahead and starting != GROUP:
        text += (
            f". The offsets table is ahead of the target in {_partitions(ahead)}: the group was read on elsewhere, or"
            " was set forward. This target gets those messages all the same; to leave them out, start with"
            f" --starting-offsets {GROUP}"
        )
    return text


def _partitions(partitions: Collection[PartitionKey]) -> str:
    plural = "partition" if len(partitions) == 1 else "partitions"
    return f"{len(partitions):,} {plural} of {', '.join(sorted({partition.topic for partition in partitions}))}"
