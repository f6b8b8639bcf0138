"""The streams of an InLong group in a run, where the rows of their tables end, and what the run tells of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.history import once_more
from tubeclient_ingest.commits.levels import after, end_of_round, highest, went_back
from tubeclient_ingest.commits.record import WITH_REST, Count, Move, Reached
from tubeclient_ingest.settings.table_by import StreamId

if TYPE_CHECKING:
    from tubeclient_ingest.rounds.group_table import GroupTable


_MOST_MOVES: Final = 20
"""Of each topic."""


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


class GroupEnds:
    """Where the rows of a group's tables end during a run. Most tables are equally far: those have one object."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.others = Offsets({})
        """Where the rows of all other streams end."""
        self.resets: dict[str, int] = {}
        """As SinkRecord has it, of the group."""
        self.moves: tuple[Move, ...] = ()
        """As SinkRecord has it."""

    def levels(self) -> list[Offsets]:
        """Where the rows of tables end that take part; once, where they are equal."""
        ends = (stream.ends for stream in self.streams.values() if stream.takes_part)
        return [self.others, *(level for level in ends if level is not self.others)]

    def ahead(self) -> Offsets | None:
        """Where the last rows end, if not all end where the next round begins."""
        levels = self.levels()
        return None if len(levels) == 1 else highest(levels)

    def end_of_round(self, start: Offsets, end: Offsets) -> Offsets:
        """`end`, or where a round from `start` has to end before it. RuntimeError: it begins past rows that a table
        lacks, which nobody would read again."""
        levels = self.levels()
        if any(at < start.get(key, at) for level in levels for key, at in level.items()):
            raise RuntimeError(f"a round begins at {start}, but the tables' rows end at {levels}: report this bug")
        # Also with one level: a run begins before it for a stream that has no table yet.
        since = [stream.since for stream in self.streams.values() if stream.since is not None]
        return end_of_round(start, end, [*levels, *since])

    def begin_at(self, start: Offsets, recorded: Offsets, reset: Collection[str] = ()) -> None:
        """The run begins at `start`, and so does a table in a partition of which it has no rows, or whose next ones are
        gone; `recorded` is where the counts table says that the rows of all others end. Of topics that are `reset` all
        tables take what comes from there on. Tables that take no part in the run lack what they lacked, and all of a
        partition of which they have no rows, unless the group did not know it before."""
        for stream in self.streams.values():
            if stream.since is not None and reset:
                stream.since = Offsets(
                    {
                        key: at if key.topic not in reset else min(at, start[key])
                        for key, at in stream.since.items()
                        if key in start or key.topic not in reset
                    }
                )
        self._keep_moves(start, reset, is_reset=True)
        new = start.without({*recorded, *self.others})
        others = recorded.merge(highest([start, self.others]))
        self._move(
            others,
            self.streams.values(),
            lambda stream: highest([start, stream.ends]) if stream.takes_part else new.merge(stream.ends),
        )

    def go_back(self, ends: Offsets) -> bool:
        """There is nothing past `ends`, in their partitions: other messages come there. Returns whether there was."""
        if not ends:
            return False
        levels = [self.others, *(stream.ends for stream in self.streams.values())]
        topics = {key.topic for level in levels for key in went_back(level, ends)}
        self.resets = once_more(self.resets, topics)
        self._keep_moves(ends, topics, is_reset=False)
        for stream in self.streams.values():
            stream.since = None if stream.since is None else stream.since.clamp({}, ends)
        self._move(self.others.clamp({}, ends), self.streams.values(), lambda stream: stream.ends.clamp({}, ends))
        return bool(topics)

    def complete(self, start: Offsets, end: Offsets) -> None:
        """All that take part have a round."""
        self.go_back(went_back(start, end))
        taking = [stream for stream in self.streams.values() if stream.takes_part]
        self._move(after(self.others, start, end), taking, lambda stream: after(stream.ends, start, end))

    def _keep_moves(self, ends: Offsets, topics: Collection[str], *, is_reset: bool) -> None:
        """Of these topics the newest of `resets` is a move to `ends`."""
        for topic in sorted(topics):
            of_topic = ends.without({key for key in ends if key.topic != topic})
            self.moves += (Move(topic, self.resets[topic], of_topic, is_reset),)
            self.moves = tuple(move for move in self.moves if move.number > self.resets[move.topic] - _MOST_MOVES)

    def _move(self, others: Offsets, streams: Iterable[Stream], move: Callable[[Stream], Offsets]) -> None:
        before, self.others = self.others, others
        for stream in streams:
            ends = others if stream.ends is before else move(stream)
            stream.ends = others if ends == others else ends
