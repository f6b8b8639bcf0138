"""One table of a group during a run: what the run knows of it, and its commits."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from spark_source.offsets.offsets import Offsets
from tubeclient_ingest.commits.beginning import (
    UNDO,
    TableChanged,
    check_beginning,
    check_cluster,
    goes_on_from,
    named,
    of_before_resets,
    of_topics,
    overtaken,
    trusted,
)
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import Count, Move, Reached, SinkRecord, most
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.settings.ingest_settings import TARGET, IngestSettings
from tubeclient_ingest.tasks.counting import Counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tubeclient_ingest.rounds.sink import Sink
    from tubeclient_ingest.tasks.round_read import TablePart
    from tubeclient_ingest.tasks.staging import Route

READ_AGAIN_SECONDS: Final = 2.0
"""A look at the table that is older is taken again before anything is written."""
_CONFIRM_COMMITS: Final = 100
_CONFIRM_SECONDS: Final = 600.0
"""How often at least, while rounds come. Delta forgets what is needed for it, perhaps already the day after."""
_SAY_AGAIN: Final = timedelta(days=1)
_NO_STREAMS: Final[Mapping[str, Reached]] = MappingProxyType({})
_NO_RESETS: Final[Mapping[str, int]] = MappingProxyType({})
_RESET: Final = "Or reset the offsets of these topics, to earliest if they were recreated"
_TAKE: Final = "Or accept the table as it is, with starting-offsets target, once: missing rows are not read again"


class RoundResult(NamedTuple):
    """A round that is written."""

    sequence: int
    """The number of the checkpoint's commit."""
    rows: int | None
    """Without bad records; None if the history does not say."""
    bad: int
    others: int
    """Rows that change nothing in a table of the newest state."""


class RoundWriter(Protocol):
    """What writes a table's rounds; the methods are those of `Writer`."""

    sink: Sink
    why_spark: str

    def write(
        self, rows: DataFrame | TablePart | None, record: SinkRecord, state: SinkState
    ) -> tuple[SinkState, Counted]: ...

    def read_ahead(self) -> None: ...

    def confirm(self, state: SinkState) -> None: ...


class GroupTable:
    """A table for one run. Its methods raise Spark's errors, OvertakenRun, UnknownRows."""

    def __init__(
        self,
        writer: RoundWriter,
        settings: IngestSettings,
        masters: tuple[str, ...],
        advice: str | None = None,
        target: str = "",
    ) -> None:
        """`advice` is for a table of many that does not say where its rows end; others say that, and what resets
        mean for it. `target` are the settings with which the user takes it as it is."""
        self._advice, self._target = advice, target
        self._writer, self._settings, self._masters = writer, settings, masters
        self.run_id = ""
        """Of this beginning: what an earlier one of the same job left undone is another run's."""
        self._read_at = 0.0
        self._confirmed: tuple[int, float] | None = None
        """At which number, and when, it was last confirmed which bad records count."""
        self.state = SinkState()
        """What the table says, as far as this run can rely on it."""

    def begin(self, chosen: str | None, reset_offsets: Collection[str]) -> bool:
        """Look at the table at a run's beginning. Returns whether the user takes it as others left it."""
        self.run_id, self._confirmed = uuid.uuid4().hex, None
        found = self.read_state()
        group = self._settings.consumer_group
        check_cluster(found, self.where, self._masters, self._settings.former_master_servers)
        topics = set(self._settings.topics).difference(reset_offsets)
        if topics and not (self._advice is not None and chosen == TARGET):  # others say where rows end
            check_beginning(found, self.where, group, topics, self._advice)
        now = found.without_topics(reset_offsets)
        stale = now.stale(now.resets) if self._advice is None else []
        if stale and now.record is not None:
            if chosen != TARGET or now.undone is None:
                take = "" if now.undone is None else f". {_TAKE}"
                raise of_before_resets(self.where, group, stale, f"{UNDO}. {_RESET}{take}")
            ends = now.record.ends.without_topics(stale).merge(of_topics(now.undone.ends, stale))
            now = replace(now, record=replace(now.record, ends=ends))
        self.state = trusted(now, self.where, group, chosen, *filter(None, [self._target]))
        return not self.is_known or bool(stale) or (found.taken_out is not None and found.taken_out.everything)

    @property
    def where(self) -> str:
        """The table, for messages."""
        return self._writer.sink.where

    @property
    def is_known(self) -> bool:
        """Whether its history says where the group's rows end, or that there are none."""
        return self.state.record is not None or self.state.is_whole

    @property
    def is_new(self) -> bool:
        """Whether it has no commit of the group, as far as its whole history says."""
        return self.state.record is None and self.state.is_whole

    @property
    def is_old(self) -> bool:
        """Whether to say again where the group's rows end, before Delta removes the commit that says it."""
        written = self.state.written
        return written is not None and datetime.now(UTC) - written > _SAY_AGAIN

    @property
    def number(self) -> int:
        """Of the group's newest round; 0 without any."""
        state = self.state
        return state.record.round if state.record is not None else 0 if state.is_whole else state.sequence

    def check(self, *, waited: bool = False) -> None:
        """Look again, if the last look is old. TableChanged, if the table is not as this run left it; also if the run
        has `waited` for one that held the group, and wrote."""
        if time.monotonic() - self._read_at <= READ_AGAIN_SECONDS:
            return
        now, before = self.read_state(), self.state
        if now != before and not goes_on_from(before, now):
            if waited:
                raise TableChanged
            own, other = before.record, now.record
            if own is not None and other is not None and other.sequence > own.sequence and not other.is_retry:
                raise overtaken(self.where, other, f"while this one was at {named(own)}")
            raise TableChanged
        self.state = now

    def write(
        self,
        rows: DataFrame | TablePart | None,
        ends: Offsets,
        streams: Mapping[str, Reached] = _NO_STREAMS,
        counts: tuple[Count, ...] = (),
        resets: Mapping[str, int] = _NO_RESETS,
        moves: tuple[Move, ...] = (),
    ) -> Counted:
        """Commit rows (None: none) and where the group's rows end then; what else is given is the record's."""
        group = self._settings.consumer_group
        resets = most((resets, self.state.resets))
        record = SinkRecord(
            group,
            self.run_id,
            ends,
            masters=self._masters,
            streams=streams,
            counts=counts,
            resets=resets,
            moves=moves,
        )
        after, counted = self._writer.write(rows, record, self.state)
        self._read_at = time.monotonic()
        # If a retry came first, the round's bad records are there twice.
        is_due = self._confirmed is None or after.sequence > self.state.sequence + 1
        number, at = self._confirmed or (0, 0.0)
        is_due = is_due or after.sequence - number >= _CONFIRM_COMMITS or self._read_at - at > _CONFIRM_SECONDS
        # What the user chose is about what others did before the run.
        self.state = trusted(after, self.where, group, None)
        if is_due:
            self._writer.confirm(self.state)
            self._confirmed = after.sequence, self._read_at
        return counted

    @property
    def why_spark(self) -> str:
        """Why Spark writes its rounds; empty if tasks do."""
        return self._writer.why_spark

    def route(self, partitions: frozenset[str] | None) -> Route:
        """What tasks make of a round's records for its next commit; `partitions` as Route has them."""
        assert isinstance(self._writer, Writer)
        record = SinkRecord(self._settings.consumer_group, self.run_id, self.state.ends)
        return self._writer.route(self.state.numbered(record), partitions)

    def read_ahead(self) -> None:
        """After a round: what the next commit needs is read in the meantime."""
        self._writer.read_ahead()

    def read_state(self) -> SinkState:
        """What the table says now."""
        self._read_at = time.monotonic()
        return self._writer.sink.read_state()
