"""Which table of an InLong group takes a record: its stream's or the one for the rest, if it lacks it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.levels import everything, taken
from tubeclient_ingest.commits.record import WITH_REST, Reached
from tubeclient_ingest.commits.stream_ends import GroupEnds, LeftBehind, Stream, ToRest
from tubeclient_ingest.rounds.definitions import Definitions
from tubeclient_ingest.settings.group_settings import table_by_of
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.table_by import REST, StreamId, TableBy
from tubeclient_ingest.tasks.staging import Routing


class CountRows(Protocol):
    """Counts a round's rows."""

    def __call__(self, *, by_partition: bool) -> Iterable[tuple[StreamId, int | None, PartitionKey | None, int]]: ...


class StreamRoutes:
    """Of one job."""

    def __init__(
        self,
        settings: IngestSettings,
        definitions: Definitions,
        ends: GroupEnds,
        on_event: Callable[[LeftBehind | ToRest], object],
    ) -> None:
        """`ends` are the group's, and change with it."""
        self._table_by, self._definitions = table_by_of(settings), definitions
        self._ends, self._streams, self._on_event = ends, ends.streams, on_event
        self.undefined: set[StreamId] = set()
        """Streams that nobody defines."""
        self._announced: set[str] = set()
        """Those of them that the run has told, and `REST` for rows of no stream."""

    def begin(self, reached: Mapping[StreamId, Reached]) -> None:
        """A run begins, and all tables say this of the streams."""
        # One that had a table, or lacks rows that the rest has not either, stays behind.
        others = (name for name, known in reached.items() if name != REST and known == WITH_REST)
        self.undefined = {name for name in others if not self._definitions.defines(name, before=False)}

    def known(self, name: StreamId) -> StreamId:
        """The name, or `REST` for a stream that is not defined."""
        if not (name == REST or name in self._streams or name in self.undefined or self._definitions.defines(name)):
            self.undefined.add(name)
        return REST if name in self.undefined else name

    def announce(self, streams: Collection[str]) -> None:
        """Tell of those whose records go to the table for the rest the first time."""
        for stream in sorted({REST, *self.undefined}.intersection(streams) - self._announced):
            self._announced.add(stream)
            self._on_event(ToRest(None if stream == REST else stream))

    def in_rest(self, stream: Stream) -> dict[str, Reached]:
        """What the commits of a table say of streams: that for the rest of those whose rows it has, with `since` as the
        counts table says it."""
        if stream.name != REST:
            return {}
        left: dict[str, Reached] = {
            each.name: WITH_REST._replace(since=each.since) for each in self._streams.values() if each.since is not None
        }
        return left | dict.fromkeys(self.undefined, WITH_REST)

    def table_by(self, start: Offsets, end: Offsets) -> TableBy:
        """What tells the tables apart in a round. Of rows that a table has already, or that for the rest, no event says
        its columns: it was another table then."""
        if not self._table_by.reads_columns:
            return self._table_by
        rest, whole = self._streams[REST], everything(start, end)
        read = dict.fromkeys(self.undefined, taken(rest.ends, start, end))
        for stream in self._streams.values():
            if stream.takes_part:
                read[stream.name] = {key for key in taken(stream.ends, start, end) if not stream.is_in_rest(key, start)}
        passed = {name: frozenset(map(str, whole - some)) for name, some in read.items()}
        return replace(self._table_by, passed={name: some for name, some in passed.items() if some})

    def routing(self, start: Offsets, end: Offsets) -> Routing:
        """What tasks have to know of all tables in a round."""
        older: dict[str, frozenset[str]] = {
            stream.name: frozenset(str(key) for key in start if stream.is_in_rest(key, start))
            for stream in self._streams.values()
            if stream.since is not None
        }
        return Routing(self.table_by(start, end), REST, frozenset(self.undefined), older)

    def counted(
        self,
        count: CountRows,
        start: Offsets,
        end: Offsets,
    ) -> dict[StreamId, dict[int | None, int]]:
        """The records of a round by the names of those tables that take them, and by minute. `count` counts them by
        stream and minute, and by partition if that is asked for."""
        others = taken(self._ends.others, start, end)
        parts = {
            name: taken(opened.ends, start, end)
            for name, opened in self._streams.items()
            if opened.takes_part and opened.ends is not self._ends.others
        }
        found: dict[StreamId, dict[int | None, int]] = {}
        by_partition = any(some != everything(start, end) for some in (others, *parts.values()))
        for stream, minute, key, number in count(by_partition=by_partition):
            of_rest = key is not None and stream in self._streams and self._streams[stream].is_in_rest(key, start)
            name = REST if of_rest else self.known(stream)
            if key is None or key in parts.get(name, others):
                if name == REST and not of_rest:
                    self.announce({stream})
                minutes = found.setdefault(name, {})
                minutes[minute] = minutes.get(minute, 0) + number
        return found


def partitions_of(stream: Stream, start: Offsets, end: Offsets) -> frozenset[str] | None:
    """The partitions of a round that a stream's table takes; None: all."""
    parts = taken(stream.ends, start, end)
    return None if parts == everything(start, end) else frozenset(map(str, parts))
