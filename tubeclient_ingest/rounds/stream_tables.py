"""A run's rounds into a table for each stream of an InLong group, and a row for each stream and minute into the counts
table, whose newest commit is the group's checkpoint.

A round's rows go to the streams' tables first, each with a commit of its own, and last to the counts table. A run that
dies in between leaves some tables ahead: the next run reads the same range, for the others alone (see `levels`). A
stream whose table refuses a round is left behind, and the others go on; so is one whose definition cannot be had. The
counts table says where the rows of such a stream end, and the next run begins there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError, DataLoss
from tubeclient.printable import counted
from tubeclient_ingest.commits.beginning import (
    TableChanged,
)
from tubeclient_ingest.commits.levels import after, ends_of, everything, lowest, taken
from tubeclient_ingest.commits.record import WITH_REST, Count, Reached, SinkRecord, most
from tubeclient_ingest.commits.stream_ends import GroupEnds, LeftBehind, Stream, StreamsLeftBehind, ToRest
from tubeclient_ingest.rounds.counts_table import CountsTable
from tubeclient_ingest.rounds.definitions import Definitions
from tubeclient_ingest.rounds.group_table import RoundResult
from tubeclient_ingest.rounds.stream_opener import FATAL, StreamOpener
from tubeclient_ingest.rounds.stream_routes import StreamRoutes, partitions_of
from tubeclient_ingest.rounds.stream_rows import StreamRows
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.settings.group_settings import takes
from tubeclient_ingest.settings.ingest_settings import TARGET, IngestSettings
from tubeclient_ingest.settings.table_by import REST, StreamId
from tubeclient_ingest.tables.formats import JobTable
from tubeclient_ingest.tasks.counting import Counted, persisted
from tubeclient_ingest.tasks.round_read import RoundRead, TablePart
from tubeclient_ingest.tasks.staging import Route, Staged, columns_by_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


__all__ = ["StreamTables"]


_AT_ONCE: Final = 4
"""How many tables are written at a time."""

Expired: TypeAlias = Callable[[Offsets], DataLoss | None]
"""The error of reading from there, if the brokers no longer hold it."""

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class StreamTables:
    """The methods are those of `OneTable`.

    `writer_of` makes the writer of a stream's table from the settings of a job for that stream alone, and the table.
    """

    def __init__(
        self,
        rows: StreamRows,
        settings: IngestSettings,
        masters: tuple[str, ...],
        writer_of: Callable[[IngestSettings, JobTable], Writer],
        on_event: Callable[[LeftBehind | ToRest], object],
    ) -> None:
        self._rows, self._settings = rows, settings
        self._counts = CountsTable(rows, settings, masters)
        self.checkpoint = self._counts.checkpoint
        self._create = True
        self._definitions = Definitions(settings)
        self.ends = GroupEnds()
        self._streams = self.ends.streams
        known = self._definitions, self.ends, self.checkpoint
        self._opener = StreamOpener(rows, settings, masters, writer_of, on_event, *known)
        self._routes = StreamRoutes(settings, self._definitions, self.ends, on_event)
        self._reset: frozenset[str] = frozenset()
        """The topics that begin anew."""

    @property
    def why_spark(self) -> str:
        """Why Spark writes the rounds; empty if tasks do. One table that needs Spark is enough."""
        found = ((stream.name, stream.table.why_spark) for stream in self._streams.values() if stream.table is not None)
        return next((f"{name}: {why}" for name, why in found if why), "")

    # At a run's beginning

    def open(self, *, create: bool = True) -> None:
        self._create = create
        self._definitions.changed()
        self._counts.open(create=create)
        self._rows.open_bad_records(create=create)  # before several writers make it at once

    def begin(
        self, known: Offsets, chosen: str | None, reset_offsets: Collection[str], expired: Expired = lambda _: None
    ) -> Offsets:
        record = self.checkpoint.state.record
        self.ends.others, self._reset = known, frozenset(reset_offsets)
        reached = _streams_of(record)
        self._opener.begin(chosen, reset_offsets, reached, is_unknown=record is None)
        counted: set[StreamId] = set()
        if reset_offsets or (record is None and chosen == TARGET):
            # What the user says is about all tables. Those are known by their counts.
            counted = self._counts.streams()
        if reset_offsets:
            reached = {**dict.fromkeys(counted, Reached(0)), **reached}
        self._streams.clear()

        def open_stream(name: StreamId) -> Stream:
            # One that had a table may have been removed while the run goes on.
            create = self._create or reached.get(name, WITH_REST).number <= 0 or name in self._definitions.waiting
            return self._opener.open_stream(name, reached.get(name), create=create)

        # Always, for its number is taken: see `record_start`. A run that died may have left rows there, and no commit
        # of the counts table knows whose.
        self._streams[REST] = rest = open_stream(REST)
        in_rest = _streams_of(None if rest.table is None else rest.table.state.record)
        if record is None:
            reached = {name: own._replace(since=in_rest.get(name, own).since) for name, own in reached.items()}
        reached = {**dict.fromkeys(in_rest, WITH_REST), **reached}
        self._routes.begin(reached)
        others = sorted({*reached, *counted} - self._routes.undefined - {REST})
        self._streams.update((stream.name, stream) for stream in self._at_once(open_stream, others))
        tables = [stream.table.state for stream in self._streams.values() if stream.table is not None]
        self.ends.resets = most(state.resets for state in (self.checkpoint.state, *tables))
        self.ends.moves = () if record is None else record.moves
        for stream in self._streams.values():
            self._opener.check_resets(stream, reached.get(stream.name))
            if stream.takes_part and stream.ends is not known and (lost := expired(stream.ends)) is not None:
                self._opener.leave(stream, lost)
        waiting = [name for name, stream in self._streams.items() if stream.left and name in self._definitions.waiting]
        # Events of before say what the columns of a table are that is gone.
        first = (ends_of(0, Offsets({}), reached.get(StreamId(name)), known) for name in waiting)
        return lowest([*self.ends.levels(), *(ends for ends in first if expired(ends) is None)])

    def check(self) -> None:
        for table in (self.checkpoint, *(stream.table for stream in self._streams.values())):
            if table is not None:
                table.check(waited=True)

    def record_start(self, start: Offsets, *, is_accepted: bool) -> None:
        state, streams = self.checkpoint.state, self._streams.values()
        self.ends.begin_at(start, state.ends, self._reset)
        for stream in () if self._reset else streams:  # a reset is nowhere before the counts table has it
            # Who finds rows of others later in a table that is new by now sees that the group began before them. Its
            # number is above the former table's before the counts table has it.
            if stream.name != REST and stream.takes_part and stream.table is not None and stream.table.is_new:
                stream.table.write(None, stream.ends, resets=self.ends.resets)
                stream.number = stream.table.number
        reached = _streams_of(state.record)
        left_the_rest = any(
            stream.since is not None and reached.get(stream.name, WITH_REST) == WITH_REST for stream in streams
        )
        # A table that was put back has fewer commits.
        is_new = any(stream.uncounted or stream.number < stream.counted for stream in streams) or left_the_rest
        is_new = is_new or state.record is None or is_accepted or self.checkpoint.is_old
        if is_new or self.ends.others.to_dict() != state.ends.to_dict():
            self._commit()
        for stream in streams:
            # A run that stands still has the same rows for a stream's table, whose number is taken when they are
            # written. But it may hold some for the rest that are a stream's by now: so that number is taken at once.
            says_it = stream.is_accepted or stream.name == REST or (self._reset and stream.takes_part)
            if stream.table is not None and (says_it or stream.table.is_old or stream.table.state.is_put_back):
                resets = self.ends.resets if stream.takes_part else {}
                stream.table.write(None, stream.ends, self._routes.in_rest(stream), resets=resets)
                stream.number, stream.is_accepted = stream.table.number, False
        self._count_numbers()

    # A round

    def write(self, read: RoundRead | None, start: Offsets, end: Offsets) -> RoundResult | None:
        self.checkpoint.check()
        if self._definitions.changed():
            raise TableChanged
        if read is None:
            return self._completed(start, end)
        if not self.why_spark:
            return self._write_files(read, start, end)
        with persisted(self._rows.named(read, self._routes.table_by(start, end))) as frame:
            self._learn(self._rows.columns(frame))
            counts = self._routes.counted(partial(self._rows.counted, frame), start, end)
            if not self._open_new(counts.keys() - self._streams.keys(), start):
                return None
            mine = [self._streams[name] for name in sorted(counts) if self._streams[name].takes_part]

            def write(stream: Stream) -> Counted | Exception:
                return self._write_one(stream, frame, counts[stream.name], start, end)

            done = dict(zip((stream.name for stream in mine), self._at_once(write, mine), strict=True))
        return self._end_round(done, counts, start, end)

    def _write_files(self, read: RoundRead, start: Offsets, end: Offsets) -> RoundResult | None:
        """Write a round whose files tasks write."""

        def stage(names: Collection[StreamId]) -> dict[StreamId, Staged]:
            routes: dict[str, Route] = {name: self._route(self._streams[name], start, end) for name in sorted(names)}
            routing = self._routes.routing(start, end)
            return {StreamId(name): written for name, written in read.stage(routing, routes).items()}

        before = {stream.name for stream in self._streams.values() if stream.takes_part}
        found = stage(before)
        self._learn(columns_by_stream(found.values()))
        if unrouted := found.keys() - self._streams.keys():
            # Nothing is written of those yet.
            new = {name for name in unrouted if self._routes.known(name) != REST}
            if not self._open_new(new, start):
                return None
            if self.why_spark:
                return None
            again = {name for name in new if self._streams[name].takes_part}
            again |= {REST} & before if new != unrouted else set()
            found |= {name: written for name, written in stage(again).items() if name in again}
        self._routes.announce(found[REST].streams if REST in found else ())
        mine = [
            stream
            for stream in self._streams.values()
            if stream.takes_part and stream.name in found and found[stream.name].total
        ]
        counts = {stream.name: {minute: n for minute, (n, _) in found[stream.name].minutes.items()} for stream in mine}
        routing = self._routes.routing(start, end)

        def write(stream: Stream) -> Counted | Exception:
            part = TablePart(read, routing, stream.name, found[stream.name], partitions_of(stream, start, end))
            return self._commit_one(stream, part, counts[stream.name], start, end)

        done = dict(zip((stream.name for stream in mine), self._at_once(write, mine), strict=True))
        return self._end_round(done, counts, start, end)

    def _learn(self, columns: Mapping[str, Collection[str]]) -> None:
        """Take what events say of tables' columns. TableChanged if that changes a table of this run."""
        more = [StreamId(name) for name, texts in columns.items() if self._definitions.learn(StreamId(name), texts)]
        if not self._streams.keys().isdisjoint(more) or not self._routes.undefined.isdisjoint(more):
            raise TableChanged

    def go_back(self, ends: Offsets) -> bool:
        if not self.ends.go_back(ends):
            return False
        self._commit()
        for stream in self._streams.values():
            if stream.table is not None and stream.takes_part:
                stream.table.write(None, stream.ends, self._routes.in_rest(stream), resets=self.ends.resets)
                stream.number = stream.table.number
        self._count_numbers()
        return True

    def _count_numbers(self) -> None:
        """Say in the counts table which commits the streams' tables have by now, so that it is of use to one that
        forgets its history."""
        if any(
            stream.number > stream.counted
            for stream in self._streams.values()
            if stream.name != REST and stream.takes_part
        ):
            self._commit()

    def _route(self, stream: Stream, start: Offsets, end: Offsets) -> Route:
        assert stream.table is not None
        return stream.table.route(partitions_of(stream, start, end))

    def _open_new(self, names: Collection[StreamId], start: Offsets) -> bool:
        """Open the tables of streams that came the first time. False: the round has to be planned again."""
        new = self._at_once(lambda name: self._opener.open_stream(name, None), sorted(names))
        self._streams.update((stream.name, stream) for stream in new)
        for stream in new:
            self._opener.check_resets(stream, None)
        if new:
            # Before its first rows: whoever has no definition of the stream is to know that it has a table.
            self._commit()
        # A run that died has made its table, and the counts table did not know it.
        others = [stream.ends for stream in new if stream.takes_part and stream.ends != self.ends.others]
        if any(ends.get(key, 0) < at for ends in others for key, at in start.items()):
            raise TableChanged
        return not others

    def _end_round(
        self,
        done: Mapping[StreamId, Counted | Exception],
        counts: Mapping[StreamId, Mapping[int | None, int]],
        start: Offsets,
        end: Offsets,
    ) -> RoundResult:
        for fatal in [found for kind in FATAL for found in done.values() if isinstance(found, kind)]:
            raise fatal  # another run goes on, or this one looks once more
        good = bad = same = 0
        for name, found in done.items():
            if isinstance(found, Counted):
                rows = sum(counts[name].values()) - found.bad - found.others
                good += rows if found.rows is None else found.rows
                bad, same = bad + found.bad, same + found.others
            else:
                self._opener.leave(self._streams[name], found)
        return self._completed(start, end, good, bad, same)

    def _write_one(
        self, stream: Stream, frame: DataFrame, minutes: Mapping[int | None, int], start: Offsets, end: Offsets
    ) -> Counted | Exception:
        """Write a stream's part of a round."""
        assert stream.table is not None
        parts = taken(stream.ends, start, end)
        names = {REST, *self._routes.undefined} if stream.name == REST else {stream.name}
        rows = self._rows.part(frame, names, None if parts == everything(start, end) else parts)
        if stream.name == REST:
            for other in self._streams.values():
                if older := {key for key in parts if other.is_in_rest(key, start)}:
                    rows = rows.union(self._rows.part(frame, {other.name}, older))
        return self._commit_one(stream, rows, minutes, start, end)

    def _commit_one(
        self,
        stream: Stream,
        rows: DataFrame | TablePart,
        minutes: Mapping[int | None, int],
        start: Offsets,
        end: Offsets,
    ) -> Counted | Exception:
        assert stream.table is not None
        try:
            self.checkpoint.check()  # a run that stood still meanwhile may know fewer streams than the one that goes on
            stream.table.check()
            before = {count.minute_ms: count for count in stream.uncounted}
            more = [Count(*each) for each in minutes.items()]
            counts = tuple({**before, **{count.minute_ms: count.added(before) for count in more}}.values())
            ends, resets = after(stream.ends, start, end), self.ends.resets
            return stream.table.write(rows, ends, self._routes.in_rest(stream), counts, resets)
        except Exception as error:
            return error

    def _completed(self, start: Offsets, end: Offsets, rows: int = 0, bad: int = 0, others: int = 0) -> RoundResult:
        """Say in the counts table that the round is written."""
        self.ends.complete(start, end)
        for stream in self._streams.values():
            if stream.table is not None and stream.takes_part:
                stream.number = stream.table.number
        self._commit()
        return RoundResult(self.checkpoint.state.sequence, rows, bad, others)

    def _commit(self) -> None:
        counts = {name: stream.uncounted for name, stream in self._streams.items()}
        streams = {name: stream.reached(self.ends.others) for name, stream in self._streams.items()}
        streams |= dict.fromkeys(self._routes.undefined, WITH_REST)
        self._counts.commit(counts, self.ends.others, streams, self.ends.resets, self.ends.moves)
        for stream in self._streams.values():
            stream.counted = stream.number

    def writers(self) -> Iterator[Writer]:
        self.open(create=False)
        streams = _streams_of(self.checkpoint.read_state().record)
        for name in sorted(name for name, reached in streams.items() if reached.number > 0):
            if takes(self._settings, name):
                try:
                    writer, _, _ = self._opener.writer(name)
                    writer.open(create=False, writes=False)
                except ConfigurationError as error:
                    text = f"stream {name}: {error}. Correct that, or leave the stream out with --stream '!{name}'"
                    raise ConfigurationError(text, condition=error.condition) from None
                yield writer

    def end(self) -> None:
        """StreamsLeftBehind, if any stream is."""
        self._counts.auditing.report((), at_once=True)
        left = [f"{stream.name}: {stream.left}" for stream in self._streams.values() if stream.left is not None]
        if left:
            raise StreamsLeftBehind(
                f"{counted(len(left), 'stream')} could not be written, but all others were: {'; '.join(left)}. Fix "
                "that and start again: each stream continues where its rows end"
            )

    def _at_once(self, work: Callable[[_Given], _Made], given: Sequence[_Given]) -> list[_Made]:
        """What `work` makes of each, several at a time."""
        # A MERGE needs settings of its session, which on servers of Spark Connect before 4.1 all writers share.
        if len(given) < 2 or self._settings.key:
            return [work(each) for each in given]
        with ThreadPoolExecutor(_AT_ONCE, "ingest") as pool:
            return list(pool.map(work, given))


def _streams_of(record: SinkRecord | None) -> dict[StreamId, Reached]:
    return {} if record is None else {StreamId(name): reached for name, reached in record.streams.items()}
