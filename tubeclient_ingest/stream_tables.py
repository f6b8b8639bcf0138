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
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from spark_source.offsets.offsets import Offsets
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError, DataLoss
from tubeclient.printable import counted
from tubeclient_ingest.beginning import (
    COME_AGAIN,
    REMOVE,
    OvertakenRun,
    TableChanged,
    UnknownRows,
    ahead_of_counts,
    by_target,
    of_before_resets,
    of_put_back,
    of_stream,
    rows_come_again,
)
from tubeclient_ingest.counting import Counted, persisted
from tubeclient_ingest.counts_table import CountsTable
from tubeclient_ingest.definitions import Definitions
from tubeclient_ingest.group_settings import table_by_of, takes
from tubeclient_ingest.group_table import GroupTable, Written
from tubeclient_ingest.inlong_definition import PROPERTY
from tubeclient_ingest.levels import after, ends_of, everything, highest, lowest, missed, taken
from tubeclient_ingest.record import WITH_REST, Count, Reached, SinkRecord, most
from tubeclient_ingest.round_read import Part, RoundRead
from tubeclient_ingest.settings import TARGET, IngestSettings
from tubeclient_ingest.spark_errors import failure_of, spark_errors
from tubeclient_ingest.staging import Route, Routing, Staged, columns_by_stream
from tubeclient_ingest.stream import GroupEnds, LeftBehind, Stream, StreamsLeftBehind, ToRest
from tubeclient_ingest.stream_rows import StreamRows
from tubeclient_ingest.table_by import REST, StreamId, TableBy
from tubeclient_ingest.tables import JobTable
from tubeclient_ingest.writing import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


__all__ = ["StreamTables"]


_AT_ONCE: Final = 4
"""How many tables are written at a time."""
_FATAL: Final = (OvertakenRun, TableChanged)
"""Errors of a stream that end the round for all."""

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
        self._rows, self._settings, self._masters = rows, settings, masters
        self._writer_of, self._on_event = writer_of, on_event
        self._counts = CountsTable(rows, settings, masters)
        self.checkpoint = self._counts.checkpoint
        self._create = True
        self._definitions = Definitions(settings)
        self.ends = GroupEnds()
        self._streams = self.ends.streams
        self._unknown: set[StreamId] = set()
        """Streams that are not defined."""
        self._announced: set[str] = set()
        """Those of them that the run has told, and `REST` for rows of no stream."""
        self._chosen: str | None = None
        self._reset: frozenset[str] = frozenset()
        """The topics that begin anew."""
        self._is_unknown = False
        """Whether the counts table did not say where the group's rows end when the run began."""

    @property
    def why_spark(self) -> str:
        """Why Spark writes the rounds; empty if tasks do. One table that needs Spark is enough."""
        found = ((one.name, one.table.why_spark) for one in self._streams.values() if one.table is not None)
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
        self.ends.others, self._chosen, self._is_unknown = known, chosen, record is None
        self._reset = frozenset(reset_offsets)
        reached = _streams_of(record)
        counted: set[StreamId] = set()
        if reset_offsets or (record is None and chosen == TARGET):
            # What the user says is about all tables. Those are known by their counts.
            counted = self._counts.streams()
        if reset_offsets:
            reached = {**dict.fromkeys(counted, Reached(0)), **reached}
        self._streams.clear()

        def opened(name: StreamId) -> Stream:
            # One that had a table may have been removed while the run goes on.
            create = self._create or reached.get(name, WITH_REST).number <= 0 or name in self._definitions.waiting
            return self._opened(name, reached.get(name), create=create)

        # Always, for its number is taken: see `begun`. A run that died may have left rows there, and no commit of the
        # counts table knows whose.
        self._streams[REST] = rest = opened(REST)
        in_rest = _streams_of(None if rest.table is None else rest.table.state.record)
        if record is None:
            reached = {name: one._replace(since=in_rest.get(name, one).since) for name, one in reached.items()}
        reached = {**dict.fromkeys(in_rest, WITH_REST), **reached}
        self._unknown = {one for one in reached if self._is_undefined(one, reached[one])}
        others = sorted({*reached, *counted} - self._unknown - {REST})
        self._streams.update((one.name, one) for one in self._at_once(opened, others))
        tables = [one.table.state for one in self._streams.values() if one.table is not None]
        self.ends.resets = most(one.resets for one in (self.checkpoint.state, *tables))
        self.ends.moves = () if record is None else record.moves
        for one in self._streams.values():
            self._check_resets(one, reached.get(one.name))
            if one.takes_part and one.ends is not known and (lost := expired(one.ends)) is not None:
                self._leave(one, lost)
        waiting = [name for name, one in self._streams.items() if one.left and name in self._definitions.waiting]
        # Events of before say what the columns of a table are that is gone.
        first = (ends_of(0, Offsets({}), reached.get(StreamId(name)), known) for name in waiting)
        return lowest([*self.ends.levels(), *(ends for ends in first if expired(ends) is None)])

    def _is_undefined(self, name: StreamId, reached: Reached) -> bool:
        # One that had a table, or lacks rows that the rest has not either, stays behind.
        return name != REST and reached == WITH_REST and not self._definitions.defines(name, before=False)

    def begun(self, start: Offsets, *, is_accepted: bool) -> None:
        state, streams = self.checkpoint.state, self._streams.values()
        self.ends.begin_at(start, state.ends, self._reset)
        for one in () if self._reset else streams:  # a reset is nowhere before the counts table has it
            # Who finds rows of others later in a table that is new by now sees that the group began before them. Its
            # number is above the former table's before the counts table has it.
            if one.name != REST and one.takes_part and one.table is not None and one.table.is_new:
                one.table.write(None, one.ends, resets=self.ends.resets)
                one.number = one.table.number
        reached = _streams_of(state.record)
        left_the_rest = any(one.since is not None and reached.get(one.name, WITH_REST) == WITH_REST for one in streams)
        # A table that was put back has fewer commits.
        is_new = any(one.uncounted or one.number < one.counted for one in streams) or left_the_rest
        is_new = is_new or state.record is None or is_accepted or self.checkpoint.is_old
        if is_new or self.ends.others.to_dict() != state.ends.to_dict():
            self._commit()
        for one in streams:
            # A run that stands still has the same rows for a stream's table, whose number is taken when they are
            # written. But it may hold some for the rest that are a stream's by now: so that number is taken at once.
            says_it = one.is_accepted or one.name == REST or (self._reset and one.takes_part)
            if one.table is not None and (says_it or one.table.is_old):
                resets = self.ends.resets if one.takes_part else {}
                one.table.write(None, one.ends, self._with_rest(one), resets=resets)
                one.number, one.is_accepted = one.table.number, False
        self._count_numbers()

    def _opened(self, name: StreamId, reached: Reached | None, *, create: bool = True) -> Stream:
        """A stream with its table, which is made if it is missing and `create` allows it; or left behind."""

        def in_others(at: Offsets | None) -> Offsets | None:
            return at if at is None else at.without_topics(self._reset)

        if reached is not None:
            reached = reached._replace(ends=in_others(reached.ends))
        number, ends, since = reached or WITH_REST
        one = Stream(name, self.ends.others if ends is None else ends, number, max(number, 0), since)
        try:
            if number < 0 and name != REST:
                one.since = self._in_rest(name, reached)
                one.ends = self.ends.others if (since := in_others(one.since)) is None else since
            one.number = one.counted
            if not takes(self._settings, name):
                return one
            place = self._rows.table_of(name)
            settings = self._definitions.settings_of(name, self._definitions.stored(place.detail))
            writer = self._writer_of(settings, place)
            if create:
                self._rows.make_schema(name)
            writer.open(create=create)
            writer.by_minute = True
            # The counts table knows a table's commits by their numbers: one that is made anew has others.
            writer.sink.numbers_after = max(writer.sink.numbers_after, number)
            now = settings.table_properties.get(PROPERTY)
            if now is not None and writer.detail.properties.get(PROPERTY) != now:
                place.set_properties({PROPERTY: now})
            advice = COME_AGAIN if self._is_unknown else of_stream(name)
            table = GroupTable(writer, settings, self._masters, advice, by_target(name))
            one.is_accepted = table.begin(self._chosen_for(name), self._reset)
            state = table.state
            if not (table.is_known or self._reset) and table.number > max(number, 0):
                raise ahead_of_counts(table.where, settings.consumer_group, table.number, max(number, 0))
            # If nobody knows where its rows end, the user said that it has what the counts table says.
            counts_as = table.number if table.is_known else number
            if number >= 0 or counts_as > 0:
                # A table that is gone, or was put back to before its first rows, is filled from its beginning.
                since = in_others(one.since) if counts_as == 0 else None
                one.ends = ends_of(counts_as, state.ends if since is None else since, reached, self.ends.others)
            one.number, one.table = table.number, table
        except _FATAL:
            raise
        except Exception as error:
            if self._reset or (self._is_unknown and isinstance(error, UnknownRows)):
                raise
            self._leave(one, error)
        return one

    def _chosen_for(self, name: StreamId) -> str | None:
        """Where the user has the group begin. What a user says of one table that others changed is not said of all; and
        of a counts table that forgot its history, of no other."""
        is_named = not self._settings.streams if name == REST else name in self._settings.streams
        return None if self._chosen == TARGET and (self._is_unknown or not is_named) else self._chosen

    def _check_resets(self, one: Stream, reached: Reached | None) -> None:
        """See where a table's rows end that is not as the counts table knows it, and says that by offsets of before a
        reset or a loss. Leave it behind if that is unknown. UnknownRows for the table for the rest, and if the counts
        table does not know the stream."""
        number = -1 if reached is None else reached.number
        if one.table is None:
            return
        state, where, group = one.table.state, one.table.where, self._settings.consumer_group
        is_put_back = one.table.number < number or state.undone is not None
        if one.table.number == number and not is_put_back:  # the counts table says where its rows end
            return
        if not (stale := state.stale(self.ends.resets)):
            return
        own = {} if state.record is None else state.record.resets
        found = missed(one.ends, own, self.ends.resets, self.ends.moves)
        if not (found.unknown or (is_put_back and found.reset)):
            one.ends, one.is_accepted = found.ends, True
            return
        others = one.since if number < 0 and one.since is not None else self.ends.others
        one.ends = ends_of(max(number, 0), others, reached, others).without_topics(self._reset)
        if self._is_unknown or reached is None:
            raise rows_come_again(where, group)
        if self._chosen_for(one.name) == TARGET:
            one.is_accepted = True
            return
        one.number = one.counted
        advice = of_put_back(one.name) if is_put_back else f"{of_stream(one.name)}. {REMOVE}"
        error = of_before_resets(where, group, stale, advice)
        if one.name == REST:
            raise error
        one.table = None  # it must not say anything before the user does
        self._leave(one, error)

    def _in_rest(self, name: str, reached: Reached | None) -> Offsets | None:
        """Where the rows of a stream end that went to the table for the rest, as nobody defined it; None: none did."""
        rest = self._streams.get(REST)
        if rest is None:
            return self.ends.others if reached == WITH_REST else None
        if rest.table is None:
            raise ConfigurationError(f"whether the table {REST} has rows of it cannot be seen: {rest.left}")
        record, group = rest.table.state.record, self.checkpoint.state
        known = (group.record.streams if group.record is not None else {}).get(REST, Reached(0))
        ends = group.ends if known.ends is None else known.ends
        known_there = None if record is None else record.streams.get(name)
        if known_there is not None and known_there.since is not None:
            return known_there.since
        if record is not None and record.round > known.number and known_there is not None:
            return highest([ends, record.ends])  # a run died before it wrote the counts
        return ends if reached == WITH_REST else None

    def _with_rest(self, one: Stream) -> dict[str, Reached]:
        """What the commits of the table for the rest say of the streams whose rows it has; `since` as the counts table
        says it."""
        if one.name != REST:
            return {}
        left: dict[str, Reached] = {
            each.name: WITH_REST._replace(since=each.since) for each in self._streams.values() if each.since is not None
        }
        return left | dict.fromkeys(self._unknown, WITH_REST)

    # A round

    def write(self, read: RoundRead | None, start: Offsets, end: Offsets) -> Written | None:
        self.checkpoint.check()
        if self._definitions.changed():
            raise TableChanged
        if read is None:
            return self._completed(start, end)
        if not self.why_spark:
            return self._write_files(read, start, end)
        with persisted(self._rows.named(read, self._table_by(start, end))) as frame:
            self._learn(self._rows.columns(frame))
            counts = self._counted(frame, start, end)
            if not self._open_new(counts.keys() - self._streams.keys(), start):
                return None
            mine = [self._streams[name] for name in sorted(counts) if self._streams[name].takes_part]

            def write(one: Stream) -> Counted | Exception:
                return self._write_one(one, frame, counts[one.name], start, end)

            done = dict(zip((one.name for one in mine), self._at_once(write, mine), strict=True))
        return self._end_round(done, counts, start, end)

    def _write_files(self, read: RoundRead, start: Offsets, end: Offsets) -> Written | None:
        """Write a round whose files tasks write."""

        def staged(names: Collection[StreamId]) -> dict[StreamId, Staged]:
            routes: dict[str, Route] = {name: self._route(self._streams[name], start, end) for name in sorted(names)}
            routing = self._routing(start, end)
            return {StreamId(name): one for name, one in read.staged(routing, routes).items()}

        before = {one.name for one in self._streams.values() if one.takes_part}
        found = staged(before)
        self._learn(columns_by_stream(found.values()))
        if unrouted := found.keys() - self._streams.keys():
            # Nothing is written of those yet.
            new = {name for name in unrouted if self._known(name) != REST}
            if not self._open_new(new, start):
                return None
            if self.why_spark:
                return None
            again = {name for name in new if self._streams[name].takes_part}
            again |= {REST} & before if new != unrouted else set()
            found |= {name: one for name, one in staged(again).items() if name in again}
        self._announce_rest(found)
        mine = [one for one in self._streams.values() if one.takes_part and one.name in found and found[one.name].total]
        counts = {one.name: {minute: n for minute, (n, _) in found[one.name].minutes.items()} for one in mine}
        routing = self._routing(start, end)

        def write(one: Stream) -> Counted | Exception:
            part = Part(read, routing, one.name, found[one.name], self._partitions(one, start, end))
            return self._commit_one(one, part, counts[one.name], start, end)

        done = dict(zip((one.name for one in mine), self._at_once(write, mine), strict=True))
        return self._end_round(done, counts, start, end)

    def _learn(self, columns: Mapping[str, Collection[str]]) -> None:
        """Take what events say of tables' columns. TableChanged if that changes a table of this run."""
        more = [StreamId(name) for name, texts in columns.items() if self._definitions.learn(StreamId(name), texts)]
        if not self._streams.keys().isdisjoint(more) or not self._unknown.isdisjoint(more):
            raise TableChanged

    def go_back(self, ends: Offsets) -> bool:
        if not self.ends.go_back(ends):
            return False
        self._commit()
        for one in self._streams.values():
            if one.table is not None and one.takes_part:
                one.table.write(None, one.ends, self._with_rest(one), resets=self.ends.resets)
                one.number = one.table.number
        self._count_numbers()
        return True

    def _count_numbers(self) -> None:
        """Say in the counts table which commits the streams' tables have by now, so that it is of use to one that
        forgets its history."""
        if any(one.number > one.counted for one in self._streams.values() if one.name != REST and one.takes_part):
            self._commit()

    def _table_by(self, start: Offsets, end: Offsets) -> TableBy:
        """What tells the tables apart in a round. Of rows that a table has already, or that for the rest, no event says
        its columns: it was another table then."""
        table_by = table_by_of(self._settings)
        if not table_by.reads_columns:
            return table_by
        rest, whole = self._streams[REST], everything(start, end)
        read = dict.fromkeys(self._unknown, taken(rest.ends, start, end))
        for one in self._streams.values():
            if one.takes_part:
                read[one.name] = {key for key in taken(one.ends, start, end) if not one.is_in_rest(key, start)}
        passed = {name: frozenset(map(str, whole - some)) for name, some in read.items()}
        return replace(table_by, passed={name: some for name, some in passed.items() if some})

    def _routing(self, start: Offsets, end: Offsets) -> Routing:
        older: dict[str, frozenset[str]] = {
            one.name: frozenset(str(key) for key in start if one.is_in_rest(key, start))
            for one in self._streams.values()
            if one.since is not None
        }
        return Routing(self._table_by(start, end), REST, frozenset(self._unknown), older)

    def _route(self, one: Stream, start: Offsets, end: Offsets) -> Route:
        assert one.table is not None
        return one.table.route(self._partitions(one, start, end))

    @staticmethod
    def _partitions(one: Stream, start: Offsets, end: Offsets) -> frozenset[str] | None:
        """The partitions of a round that a stream's table takes; None: all."""
        parts = taken(one.ends, start, end)
        return None if parts == everything(start, end) else frozenset(map(str, parts))

    def _announce_rest(self, found: Mapping[StreamId, Staged]) -> None:
        """Tell of streams whose records go to the table for the rest the first time."""
        streams = found[REST].streams if REST in found else frozenset()
        for stream in sorted(streams & {REST, *self._unknown} - self._announced):
            self._announced.add(stream)
            self._on_event(ToRest(None if stream == REST else stream))

    def _open_new(self, names: Collection[StreamId], start: Offsets) -> bool:
        """Open the tables of streams that came the first time. False: the round has to be planned again."""
        new = self._at_once(lambda name: self._opened(name, None), sorted(names))
        self._streams.update((one.name, one) for one in new)
        for one in new:
            self._check_resets(one, None)
        if new:
            # Before its first rows: whoever has no definition of the stream is to know that it has a table.
            self._commit()
        # A run that died has made its table, and the counts table did not know it.
        others = [one.ends for one in new if one.takes_part and one.ends != self.ends.others]
        if any(ends.get(key, 0) < at for ends in others for key, at in start.items()):
            raise TableChanged
        return not others

    def _end_round(
        self,
        done: Mapping[StreamId, Counted | Exception],
        counts: Mapping[StreamId, Mapping[int | None, int]],
        start: Offsets,
        end: Offsets,
    ) -> Written:
        for fatal in [found for kind in _FATAL for found in done.values() if isinstance(found, kind)]:
            raise fatal  # another run goes on, or this one looks once more
        good = bad = same = 0
        for name, found in done.items():
            if isinstance(found, Counted):
                rows = sum(counts[name].values()) - found.bad - found.others
                good += rows if found.rows is None else found.rows
                bad, same = bad + found.bad, same + found.others
            else:
                self._leave(self._streams[name], found)
        return self._completed(start, end, good, bad, same)

    def _counted(self, frame: DataFrame, start: Offsets, end: Offsets) -> dict[StreamId, dict[int | None, int]]:
        """The records of a round by the names of those tables that take them, and by minute."""
        others = taken(self.ends.others, start, end)
        parts = {
            name: taken(one.ends, start, end)
            for name, one in self._streams.items()
            if one.takes_part and one.ends is not self.ends.others
        }
        by_partition = any(some != everything(start, end) for some in (others, *parts.values()))
        found: dict[StreamId, dict[int | None, int]] = {}
        for stream, minute, key, count in self._rows.counted(frame, by_partition=by_partition):
            of_rest = key is not None and stream in self._streams and self._streams[stream].is_in_rest(key, start)
            name = REST if of_rest else self._known(stream)
            if key is None or key in parts.get(name, others):
                if name == REST and not of_rest and stream not in self._announced:
                    self._announced.add(stream)
                    self._on_event(ToRest(None if stream == REST else stream))
                minutes = found.setdefault(name, {})
                minutes[minute] = minutes.get(minute, 0) + count
        return found

    def _known(self, name: StreamId) -> StreamId:
        """The name, or `REST` for a stream that is not defined."""
        if not (name == REST or name in self._streams or name in self._unknown or self._definitions.defines(name)):
            self._unknown.add(name)
        return REST if name in self._unknown else name

    def _write_one(
        self, one: Stream, frame: DataFrame, minutes: Mapping[int | None, int], start: Offsets, end: Offsets
    ) -> Counted | Exception:
        """Write a stream's part of a round."""
        assert one.table is not None
        parts = taken(one.ends, start, end)
        names = {REST, *self._unknown} if one.name == REST else {one.name}
        rows = self._rows.part(frame, names, None if parts == everything(start, end) else parts)
        if one.name == REST:
            for other in self._streams.values():
                if older := {key for key in parts if other.is_in_rest(key, start)}:
                    rows = rows.union(self._rows.part(frame, {other.name}, older))
        return self._commit_one(one, rows, minutes, start, end)

    def _commit_one(
        self, one: Stream, rows: DataFrame | Part, minutes: Mapping[int | None, int], start: Offsets, end: Offsets
    ) -> Counted | Exception:
        assert one.table is not None
        try:
            self.checkpoint.check()  # a run that stood still meanwhile may know fewer streams than the one that goes on
            one.table.check()
            before = {count.minute_ms: count for count in one.uncounted}
            more = [Count(*each) for each in minutes.items()]
            counts = tuple({**before, **{count.minute_ms: count.added(before) for count in more}}.values())
            ends, resets = after(one.ends, start, end), self.ends.resets
            return one.table.write(rows, ends, self._with_rest(one), counts, resets)
        except Exception as error:
            return error

    def _completed(self, start: Offsets, end: Offsets, rows: int = 0, bad: int = 0, others: int = 0) -> Written:
        """Say in the counts table that the round is written."""
        self.ends.complete(start, end)
        for one in self._streams.values():
            if one.table is not None and one.takes_part:
                one.number = one.table.number
        self._commit()
        return Written(self.checkpoint.state.sequence, rows, bad, others)

    def _commit(self) -> None:
        counts = {name: one.uncounted for name, one in self._streams.items()}
        streams = {name: one.reached(self.ends.others) for name, one in self._streams.items()}
        streams |= dict.fromkeys(self._unknown, WITH_REST)
        self._counts.commit(counts, self.ends.others, streams, self.ends.resets, self.ends.moves)
        for one in self._streams.values():
            one.counted = one.number

    def writers(self) -> Iterator[Writer]:
        self.open(create=False)
        streams = _streams_of(self.checkpoint.read_state().record)
        for name in sorted(one for one, reached in streams.items() if reached.number > 0):
            place = self._rows.table_of(name)
            writer = self._writer_of(self._definitions.settings_of(name, self._definitions.stored(place.detail)), place)
            writer.open(create=False, writes=False)
            yield writer

    def end(self) -> None:
        """StreamsLeftBehind, if any stream is."""
        self._counts.auditing.report((), at_once=True)
        left = [f"{one.name}: {one.left}" for one in self._streams.values() if one.left is not None]
        if left:
            raise StreamsLeftBehind(
                f"{counted(len(left), 'stream')} stayed behind, and all others are written: {'; '.join(left)}. Mend"
                " that and start again: each goes on where its rows end"
            )

    def _leave(self, one: Stream, error: Exception) -> None:
        one.left = error_text(failure_of(error) if isinstance(error, spark_errors()) else error)
        self._on_event(LeftBehind(one.name, one.left))

    def _at_once(self, work: Callable[[_Given], _Made], given: Sequence[_Given]) -> list[_Made]:
        """What `work` makes of each, several at a time."""
        # A MERGE needs settings of its session, which on servers of Spark Connect before 4.1 all writers share.
        if len(given) < 2 or self._settings.key:
            return [work(one) for one in given]
        with ThreadPoolExecutor(_AT_ONCE, "ingest") as pool:
            return list(pool.map(work, given))


def _streams_of(record: SinkRecord | None) -> dict[StreamId, Reached]:
    return {} if record is None else {StreamId(name): one for name, one in record.streams.items()}
