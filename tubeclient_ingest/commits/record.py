"""The ingest job's record in the `userMetadata` of its commits to the target: the job's only checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from spark_source.offsets.offsets import Offsets, check_version
from tubeclient.errors import ConfigurationError

_FIELD: Final = "tubeclient"
_VERSION: Final = 1
"""Of the record's form."""


class Count(NamedTuple):
    """Records of one minute of data time."""

    minute_ms: int | None
    """Milliseconds since 1970 of its beginning; None for records without a data time."""
    received: int
    bad: int = 0

    def added(self, others: Mapping[int | None, Count]) -> Count:
        """With what `others` have of the same minute."""
        other = others.get(self.minute_ms, Count(self.minute_ms, 0))
        return Count(self.minute_ms, self.received + other.received, self.bad + other.bad)


class Reached(NamedTuple):
    """Up to where a stream's table has all its rows, as the counts table says."""

    number: int
    """The table's newest commit by then; 0 without any."""
    ends: Offsets | None = None
    """None: the ends of the counts table's own commit."""
    since: Offsets | None = None
    """Where the rows of its own table begin: those before are in the table for the rest. None: there are none."""


class Move(NamedTuple):
    """The group's offsets in a topic became others than those after its last round."""

    topic: str
    number: int
    """Of the topic's moves, as `SinkRecord.resets` counts them."""
    ends: Offsets
    is_reset: bool
    """The user had the group go on at `ends`; otherwise brokers lost what came after them, in their partitions."""


WITH_REST: Final = Reached(-1)
"""Of a stream that nobody defines: its rows are in the table for the rest, as far as that is."""


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One commit of a group, and where the group's rows end after it."""

    consumer_group: str
    run_id: str
    """Of the run that wrote it; each time that a run begins with a table it is another one."""
    ends: Offsets
    """The table has everything before these offsets, from all topics that the group has ever written to it."""
    sequence: int = 0
    """The group's number of the commit, from 1 on, across runs."""
    based_on: int | None = None
    """The table's version that the run had read before."""
    masters: tuple[str, ...] = ()
    """ "host:port" of the masters of the rows' cluster."""
    bad: int = 0
    """How many rows of the table of bad records belong to the commit: those with its sequence and its run. They were
    written before it, and count once it is there."""
    retry_of: int = 0
    """The number of the last round before it, if it moved bad records to the target: it leaves the ends as they are.
    0: it is a round itself."""
    undone: tuple[tuple[int, int], ...] = ()
    """Which numbers before `sequence` RESTORE undid: pairs of the first and the last. The commits of all others are in
    the table."""
    known_from: int = 1
    """The group's number when the user said where its rows end, as the table's history no longer did."""
    table_id: str | None = None
    """Delta's id of the table that the run had read before."""
    former_ids: tuple[str, ...] = ()
    """The ids that the table had when earlier commits were written, as before CREATE OR REPLACE."""
    streams: Mapping[str, Reached] = field(default_factory=dict)
    """In the counts table of an InLong group: each stream that has come, as far as its table is. In the table for the
    rest: the streams that nobody defines."""

    counts: tuple[Count, ...] = ()
    """In a stream's table: the records of this commit, and of those before it that the counts table does not have."""

    resets: Mapping[str, int] = field(default_factory=dict)
    """How often the group's offsets in a topic were reset, or went back with what brokers lost. Offsets of before may
    be places among other messages now. Topics that are not here: never."""
    moves: tuple[Move, ...] = ()
    """In the counts table: the last of those, in their order."""

    @property
    def is_retry(self) -> bool:
        """Whether it moved bad records to the target."""
        return self.retry_of > 0

    @property
    def round(self) -> int:
        """The number of the last round that the target has."""
        return self.retry_of or self.sequence

    @property
    def committed_numbers(self) -> tuple[tuple[int, int], ...]:
        """The numbers of the group's commits that the table has: pairs of the first and the last."""
        return not_undone(self.undone, self.sequence)

    @property
    def transaction_id(self) -> str:
        """The commit's `txnAppId`; its `txnVersion` is `sequence`."""
        return self.transaction_id_of(self.consumer_group)

    @staticmethod
    def transaction_id_of(consumer_group: str) -> str:
        """The one transaction id of a group's commits. Of two runs that write at once Delta accepts only one."""
        return f"tubeclient:{consumer_group}"

    def to_json(self) -> str:
        """The commit's userMetadata."""
        values = {key: getattr(self, name) for key, (name, _) in _FIELDS.items()}
        # Many streams have equal ends.
        places = list(dict.fromkeys(at for reached in self.streams.values() for at in reached[1:] if at is not None))
        index: dict[Offsets | None, int | None] = {None: None}
        index.update((at, number) for number, at in enumerate(places))
        streams = {name: [reached.number, *(index[at] for at in reached[1:])] for name, reached in self.streams.items()}
        of_group: dict[str, Any] = {
            "places": [place.to_dict() for place in places],
            "streams": streams,
            "counts": self.counts,
        }
        of_group["resets"] = dict(self.resets)
        of_group["moves"] = [[*move[:2], move.ends.to_dict(), move.is_reset] for move in self.moves]
        more = {"endOffsets": self.ends.to_dict(), **{name: value for name, value in of_group.items() if value}}
        return json.dumps({_FIELD: {"version": _VERSION, **values, **more}})

    @classmethod
    def parse(cls, text: str | None) -> SinkRecord | None:
        """Parse a commit's userMetadata; None if this job did not write it. ConfigurationError: a newer release did, or
        somebody changed it."""
        try:
            document = json.loads(text or "")
        except (ValueError, RecursionError):
            return None
        given = document.get(_FIELD) if isinstance(document, Mapping) else None
        if not isinstance(given, Mapping):
            return None
        check_version(given.get("version"), _VERSION, "the ingest job's commits to the target")
        values = {}
        for key, (name, is_right) in _FIELDS.items():
            values[name] = value = _frozen(given.get(key))
            if key not in given or not is_right(value):
                raise ConfigurationError(
                    f"the commit's userMetadata has a record of the ingest job, {_FIELD}, with {value!r:.100} as "
                    f"{key}: somebody else wrote or changed it. Do not write {_FIELD} there yourself, and continue "
                    "in a clone of the version before"
                )
        places = [*map(Offsets.from_dict, given.get("places", ())), None]
        streams = {
            name: Reached(number, *(places[-1 if at is None else at] for at in indices))
            for name, (number, *indices) in given.get("streams", {}).items()
        }
        moves = given.get("moves", ())
        more = {
            "counts": tuple(Count(*count) for count in given.get("counts", ())),
            "resets": given.get("resets", {}),
            "moves": tuple(Move(topic, n, Offsets.from_dict(at), is_reset) for topic, n, at, is_reset in moves),
        }
        return cls(ends=Offsets.from_dict(given.get("endOffsets")), streams=streams, **more, **values)


def most(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The highest value of each name."""
    found: dict[str, int] = {}
    for numbers in several:
        found |= {name: max(number, found.get(name, 0)) for name, number in numbers.items()}
    return found


def not_undone(undone: Sequence[tuple[int, int]], last: int) -> tuple[tuple[int, int], ...]:
    """The numbers up to `last` that are not `undone`, in the same form."""
    firsts = (1, *(end + 1 for _, end in undone))
    lasts = (*(first - 1 for first, _ in undone), last)
    return tuple((first, end) for first, end in zip(firsts, lasts, strict=True) if first <= end)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_text, value))


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _are_pairs(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(pair, tuple) and [*map(_is_number, pair)] == [True] * 2 for pair in value
    )


_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "consumerGroup": ("consumer_group", _is_text),
    "runId": ("run_id", _is_text),
    "sequence": ("sequence", _is_number),
    "basedOn": ("based_on", lambda value: value is None or _is_number(value)),
    "masterServers": ("masters", _are_texts),
    "badRecords": ("bad", _is_number),
    "retryOf": ("retry_of", _is_number),
    "undone": ("undone", _are_pairs),
    "knownFrom": ("known_from", _is_number),
    "tableId": ("table_id", lambda value: value is None or _is_text(value)),
    "formerTableIds": ("former_ids", _are_texts),
}
"""The fields of the JSON, but for `endOffsets`: the class's, and whether this job would write such a value."""
