"""A stream's table at a run's beginning, or when its first rows come: opened, and where the rows end that it has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from spark_source.offsets.offsets import Offsets
from spark_source.options.table_uris import is_name
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.commits.beginning import (
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
from tubeclient_ingest.commits.levels import ends_of, highest, missed
from tubeclient_ingest.commits.record import WITH_REST, Reached
from tubeclient_ingest.commits.stream_ends import GroupEnds, LeftBehind, Stream, ToRest
from tubeclient_ingest.rounds.definitions import Definitions
from tubeclient_ingest.rounds.group_table import GroupTable
from tubeclient_ingest.rounds.stream_rows import StreamRows
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.settings.group_settings import takes, target_of
from tubeclient_ingest.settings.ingest_settings import TARGET, IngestSettings
from tubeclient_ingest.settings.inlong_definition import PROPERTY
from tubeclient_ingest.settings.table_by import REST, StreamId
from tubeclient_ingest.tables.formats import JobTable
from tubeclient_ingest.tables.spark_errors import failure_of, spark_errors
from tubeclient_ingest.tables.table_detail import NAMED_COLUMNS

FATAL: Final = (OvertakenRun, TableChanged)
"""Errors of a stream that end the round for all."""


class StreamOpener:
    """Of one job."""

    def __init__(
        self,
        rows: StreamRows,
        settings: IngestSettings,
        masters: tuple[str, ...],
        writer_of: Callable[[IngestSettings, JobTable], Writer],
        on_event: Callable[[LeftBehind | ToRest], object],
        definitions: Definitions,
        ends: GroupEnds,
        checkpoint: GroupTable,
    ) -> None:
        """`ends` and `checkpoint` are the group's, and change with it."""
        self._rows, self._settings, self._masters = rows, settings, masters
        self._writer_of, self._on_event = writer_of, on_event
        self._definitions, self._ends, self._checkpoint = definitions, ends, checkpoint
        self._chosen: str | None = None
        self._reset: frozenset[str] = frozenset()
        self._is_unknown = False
        self._owners: dict[str, str] = {}
        """The streams that have tables, by their names in lower case."""

    def begin(
        self, chosen: str | None, reset: Collection[str], reached: Mapping[StreamId, Reached], *, is_unknown: bool
    ) -> None:
        """A run begins where the user has `chosen`, and anew in topics that are `reset`. `is_unknown`: the counts table
        does not say where the group's rows end."""
        self._chosen, self._reset, self._is_unknown = chosen, frozenset(reset), is_unknown
        self._owners = {name.lower(): name for name, known in reached.items() if known.number > 0}

    def writer(self, name: StreamId) -> tuple[Writer, JobTable, IngestSettings]:
        """The writer of a stream's table, not opened yet, with the table and the settings of a job for it alone."""
        job_table = self._rows.table_of(name)
        settings = self._definitions.settings_of(name, self._definitions.stored(job_table.detail))
        return self._writer_of(settings, job_table), job_table, settings

    def open_stream(self, name: StreamId, reached: Reached | None, *, create: bool = True) -> Stream:
        """A stream with its table, which is made if it is missing and `create` allows it; or left behind."""

        def in_others(at: Offsets | None) -> Offsets | None:
            return at if at is None else at.without_topics(self._reset)

        if reached is not None:
            reached = reached._replace(ends=in_others(reached.ends))
        number, ends, since = reached or WITH_REST
        stream = Stream(name, self._ends.others if ends is None else ends, number, max(number, 0), since)
        try:
            if number < 0 and name != REST:
                stream.since = self._in_rest(name, reached)
                stream.ends = self._ends.others if (since := in_others(stream.since)) is None else since
            stream.number = stream.counted
            if not takes(self._settings, name):
                return stream
            self._check_owner(name)
            writer, job_table, settings = self.writer(name)
            if create:
                self._rows.make_schema(name)
            writer.open(create=create)
            writer.by_minute = True
            # The counts table knows a table's commits by their numbers: one that is made anew has others.
            writer.sink.numbers_after = max(writer.sink.numbers_after, number)
            now = {of: text for of, text in settings.table_properties.items() if of in (PROPERTY, NAMED_COLUMNS)}
            if not now.items() <= writer.detail.properties.items():
                job_table.set_properties(now)
            advice = COME_AGAIN if self._is_unknown else of_stream(name)
            table = GroupTable(writer, settings, self._masters, advice, by_target(name))
            stream.is_accepted = table.begin(self._chosen_for(name), self._reset)
            state = table.state
            if not (table.is_known or self._reset) and table.number > max(number, 0):
                raise ahead_of_counts(table.where, settings.consumer_group, table.number, max(number, 0))
            # If nobody knows where its rows end, the user said that it has what the counts table says.
            counts_as = table.number if table.is_known else number
            if number >= 0 or counts_as > 0:
                # A table that is gone, or was put back to before its first rows, is filled from its beginning.
                since = in_others(stream.since) if counts_as == 0 else None
                stream.ends = ends_of(counts_as, state.ends if since is None else since, reached, self._ends.others)
            stream.number, stream.table = table.number, table
        except FATAL:
            raise
        except Exception as error:
            if self._reset or (self._is_unknown and isinstance(error, UnknownRows)):
                raise
            self.leave(stream, error)
        return stream

    def _check_owner(self, name: StreamId) -> None:
        """ConfigurationError if the table is another stream's, as catalogs do not tell case."""
        target = target_of(self._settings, name)
        if is_name(target) and (owner := self._owners.setdefault(name.lower(), name)) != name:
            raise ConfigurationError(f"{target} is the table of stream {owner}; rename this stream")

    def _chosen_for(self, name: StreamId) -> str | None:
        """Where the user has the group begin. What a user says of one table that others changed is not said of all; and
        of a counts table that forgot its history, of no other."""
        is_named = not self._settings.streams if name == REST else name in self._settings.streams
        return None if self._chosen == TARGET and (self._is_unknown or not is_named) else self._chosen

    def check_resets(self, stream: Stream, reached: Reached | None) -> None:
        """See where a table's rows end that is not as the counts table knows it, and says that by offsets of before a
        reset or a loss. Leave it behind if that is unknown. UnknownRows for the table for the rest, and if the counts
        table does not know the stream."""
        number = -1 if reached is None else reached.number
        if stream.table is None:
            return
        state, where, group = stream.table.state, stream.table.where, self._settings.consumer_group
        is_put_back = stream.table.number < number or state.undone is not None
        if stream.table.number == number and not is_put_back:  # the counts table says where its rows end
            return
        if not (stale := state.stale(self._ends.resets)):
            return
        own = {} if state.record is None else state.record.resets
        found = missed(stream.ends, own, self._ends.resets, self._ends.moves)
        if not (found.unknown or (is_put_back and found.reset)):
            stream.ends, stream.is_accepted = found.ends, True
            return
        others = stream.since if number < 0 and stream.since is not None else self._ends.others
        stream.ends = ends_of(max(number, 0), others, reached, others).without_topics(self._reset)
        if self._is_unknown or reached is None:
            raise rows_come_again(where, group)
        if self._chosen_for(stream.name) == TARGET:
            stream.is_accepted = True
            return
        stream.number = stream.counted
        advice = of_put_back(stream.name) if is_put_back else f"{of_stream(stream.name)}. {REMOVE}"
        error = of_before_resets(where, group, stale, advice)
        if stream.name == REST:
            raise error
        stream.table = None  # it must not say anything before the user does
        self.leave(stream, error)

    def _in_rest(self, name: str, reached: Reached | None) -> Offsets | None:
        """Where the rows of a stream end that went to the table for the rest, as nobody defined it; None: none did."""
        rest = self._ends.streams.get(REST)
        if rest is None:
            return self._ends.others if reached == WITH_REST else None
        if rest.table is None:
            raise ConfigurationError(f"it is unknown whether the table {REST} has rows of this stream: {rest.left}")
        record, group = rest.table.state.record, self._checkpoint.state
        known = (group.record.streams if group.record is not None else {}).get(REST, Reached(0))
        ends = group.ends if known.ends is None else known.ends
        known_there = None if record is None else record.streams.get(name)
        if known_there is not None and known_there.since is not None:
            return known_there.since
        if record is not None and record.round > known.number and known_there is not None:
            return highest([ends, record.ends])  # a run died before it wrote the counts
        return ends if reached == WITH_REST else None

    def leave(self, stream: Stream, error: Exception) -> None:
        """Write no more of a stream in this run, and tell of it."""
        stream.left = error_text(failure_of(error) if isinstance(error, spark_errors()) else error)
        self._on_event(LeftBehind(stream.name, stream.left))
