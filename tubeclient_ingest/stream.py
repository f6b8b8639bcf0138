"""A stream of an InLong group in a run, and what the run tells of streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_ingest.group_settings import StreamId
from tubeclient_ingest.record import WITH_REST, Count, Reached

if TYPE_CHECKING:
    from tubeclient_ingest.group_table import GroupTable


class LeftBehind(NamedTuple):
    """Event: a stream's table refused a round. The run goes on without the stream; the next one tries it again."""

    stream: str
    reason: str


class ToRest(NamedTuple):
    """Event: the first rows of the run that go to the table for the rest."""

    stream: str | None
    """One that is not defined, or may have no table; None: the rows are of no stream of the group."""


class StreamsLeftBehind(ConfigurationError):
    """All other streams of the group are in their tables."""

    condition = "STREAMS_LEFT_BEHIND"


@dataclass
class Stream:
    """A stream in a run."""

    name: StreamId
    ends: Offsets
    """Where the rows of its table end."""
    number: int = 0
    """The table's newest round, as far as it is known; -1 until it is known whether the rest has rows of it."""
    counted: int = 0
    """The newest round whose records the counts table has."""
    since: Offsets | None = None
    """Where the rows of its own table begin: those before are in the table for the rest. None: there are none."""
    table: GroupTable | None = None
    is_accepted: bool = False
    """The user takes the table as others left it, which it does not say yet."""
    left: str | None = None
    """Why it is left behind."""

    @property
    def takes_part(self) -> bool:
        """Not, if it is left behind, or left out by the user for now."""
        return self.table is not None and self.left is None

    @property
    def uncounted(self) -> tuple[Count, ...]:
        """What the table has, and the counts table does not."""
        record = None if self.table is None else self.table.state.record
        return record.counts if record is not None and self.counted < record.round == self.number else ()

    def reached(self, group_ends: Offsets) -> Reached:
        """What the counts table says of it in a commit with these ends."""
        if self.number < 0:
            return WITH_REST
        return Reached(self.number, None if self.ends is group_ends else self.ends, self.since)

    def is_in_rest(self, key: PartitionKey, start: Offsets) -> bool:
        """Whether its rows of a round that begins there are for the table for the rest, in a partition."""
        return self.since is not None and self.since.get(key, 0) > start.get(key, 0)
