"""A run's rounds into one table, whose newest commit is the group's checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from spark_source.offsets.offsets import Offsets
from tubeclient_ingest.group_table import GroupTable
from tubeclient_ingest.settings import IngestSettings
from tubeclient_ingest.writing import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["OneTable", "Written"]


class Written(NamedTuple):
    """A round that is written."""

    sequence: int
    """The number of the checkpoint's commit."""
    rows: int | None
    """Bad records included; None if the history does not say."""
    bad: int
    others: int
    """Rows that change nothing in a table of the newest state."""


class OneTable:
    """The methods are those of `run.Tables`."""

    def __init__(self, writer: Writer, settings: IngestSettings, masters: tuple[str, ...], run_id: str) -> None:
        self.writer = writer
        self.checkpoint = GroupTable(writer, settings, masters, run_id)

    def open(self, *, create: bool = True) -> None:
        self.writer.open(create=create)

    def begin(self, known: Offsets, chosen: str | None, begin_anew: Collection[str]) -> Offsets:
        return known

    def begun(self, start: Offsets, *, is_accepted: bool) -> None:
        state = self.checkpoint.state
        ends = state.ends.merge(start)
        if state.record is None or is_accepted or ends.to_dict() != state.ends.to_dict():
            self.checkpoint.write(None, ends)

    def ahead(self) -> Offsets | None:
        return None

    def go_back(self, ends: Offsets) -> None:
        """There is no other table."""

    def end_of_round(self, start: Offsets, end: Offsets) -> Offsets:
        return end

    def write(self, rows: DataFrame | None, start: Offsets, end: Offsets) -> Written | None:
        self.checkpoint.check()
        # Partitions that left the cluster leave the offsets. If the name returns, it begins anew.
        ends = self.checkpoint.state.ends.without(start.keys() - end.keys()).merge(end)
        counted = self.checkpoint.write(rows, ends)
        added = self.checkpoint.state.rows
        rows_of_round = None if added is None else added + counted.bad
        return Written(self.checkpoint.state.sequence, rows_of_round, counted.bad, counted.others)

    def writers(self) -> Iterator[Writer]:
        self.writer.open(create=False)
        yield self.writer

    def rest(self) -> None:
        self.checkpoint.rest()

    def end(self) -> None:
        """Whatever kept rows from the table has ended the run."""
