"""A run's rounds into one table, whose newest commit is the group's checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from spark_source.offsets.offsets import Offsets
from tubeclient_ingest.commits.history import once_more
from tubeclient_ingest.commits.levels import went_back
from tubeclient_ingest.commits.stream_ends import GroupEnds
from tubeclient_ingest.rounds.group_table import GroupTable, RoundResult
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.settings.ingest_settings import IngestSettings

if TYPE_CHECKING:
    from tubeclient_ingest.tasks.round_read import RoundRead


class OneTable:
    """Its methods, and those of `StreamTables`, raise Spark's errors, OvertakenRun, UnknownRows, TableChanged."""

    def __init__(self, writer: Writer, settings: IngestSettings, masters: tuple[str, ...]) -> None:
        self.writer = writer
        self.checkpoint = GroupTable(writer, settings, masters)
        """Its newest commit says where the group's rows end."""
        self.ends = GroupEnds()
        """Where those of each table end."""

    def open(self, *, create: bool = True) -> None:
        """Look whether the records fit the tables, and make the checkpoint if it is missing, or say so without
        `create`. Raises ConfigurationError."""
        self.writer.open(create=create)

    @property
    def why_spark(self) -> str:
        """Why Spark writes the rounds; empty if tasks do."""
        return self.writer.why_spark

    def begin(
        self, known: Offsets, chosen: str | None, reset_offsets: Collection[str], expired: object = None
    ) -> Offsets:
        """The first offsets that any of the tables needs, if the group's rows end at `known`; `chosen` are the user's
        starting offsets."""
        return known

    def check(self) -> None:
        """Look again after the wait for the group. TableChanged: whoever held it wrote."""
        self.checkpoint.check(waited=True)

    def record_start(self, start: Offsets, *, is_accepted: bool) -> None:
        """Say in the checkpoint that the run begins at `start`, unless it says so already: so the next run begins there
        too, whatever becomes of this one. `is_accepted`: the user takes its rows as others left them."""
        state = self.checkpoint.state
        ends = state.ends.merge(start)
        # A jump takes its number before it has bad records: others then take the same next one, and one gets through.
        is_new = state.record is None or state.is_put_back or is_accepted or self.checkpoint.is_old
        if is_new or ends.to_dict() != state.ends.to_dict():
            self.checkpoint.write(None, ends)

    def go_back(self, ends: Offsets) -> bool:
        """There is nothing past `ends`, where rows of some tables ended: say so in all of them. Returns whether that is
        done; one table says it with the next round."""
        return False

    def write(self, read: RoundRead | None, start: Offsets, end: Offsets) -> RoundResult | None:
        """Write a round; None if it has to be planned again, and nothing was written."""
        self.checkpoint.check()
        # Partitions that left the cluster leave the offsets. If the name returns, it begins anew.
        ends = self.checkpoint.state.ends.without(start.keys() - end.keys()).merge(end)
        resets = once_more(self.checkpoint.state.resets, {key.topic for key in went_back(start, end)})
        counted = self.checkpoint.write(None if read is None else self.writer.part(read), ends, resets=resets)
        state = self.checkpoint.state
        rows = state.rows if counted.rows is None else counted.rows
        return RoundResult(state.sequence, rows, counted.bad, counted.others)

    def writers(self) -> Iterator[Writer]:
        """The writers of all tables that are there, for retries. ConfigurationError for one that is not."""
        self.writer.open(create=False, writes=False)
        yield self.writer

    def end(self) -> None:
        """Raise what kept rows from their tables, while the run went on: here, nothing could."""
