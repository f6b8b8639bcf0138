"""The ingest job's record in the `userMetadata` of its commits to the target: the job's only checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_source.offsets.offsets import Offsets, check_version
from tubeclient.errors import ConfigurationError

__all__ = ["SinkRecord"]

_FIELD = "tubeclient"
_MISSING: Final = object()
_VERSION = 1
"""Of the record's form."""


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One commit of a group, and where the group's rows end after it."""

    consumer_group: str
    run_id: str
    """Of the run that wrote it."""
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
    is_retry: bool = False
    """Whether it moved bad records to the target: it leaves the ends as they are."""
    undone: tuple[tuple[int, int], ...] = ()
    """Which numbers before `sequence` RESTORE undid: pairs of the first and the last. The commits of all others, from
    `known_from` on, are in the table."""
    known_from: int = 1
    """The first number of which `undone` tells; the table's history no longer has what was before."""
    table_id: str | None = None
    """The id of the table that the run had read before; None if the record does not say."""
    settled: int = field(default=0, compare=False)
    """Up to this number all rows of the table of bad records are of the runs that wrote the commits."""

    @property
    def held(self) -> tuple[tuple[int, int], ...]:
        """The numbers of the group's commits that the table has, from `known_from` on: pairs of the first and the
        last."""
        firsts = (self.known_from, *(last + 1 for _, last in self.undone))
        lasts = (*(first - 1 for first, _ in self.undone), self.sequence)
        return tuple((first, last) for first, last in zip(firsts, lasts, strict=True) if first <= last)

    @property
    def transaction_id(self) -> str:
        """The commit's `txnAppId`; its `txnVersion` is `sequence`."""
        return self.transaction_id_of(self.consumer_group)

    @staticmethod
    def transaction_id_of(consumer_group: str) -> str:
        """The one transaction id of a group's commits. Of two runs that write at once Delta accepts only
        one."""
        return f"tubeclient:{consumer_group}"

    def to_json(self) -> str:
        """The commit's userMetadata."""
        record: dict[str, Any] = {
            "version": _VERSION,
            "consumerGroup": self.consumer_group,
            "runId": self.run_id,
            "sequence": self.sequence,
            "basedOn": self.based_on,
            "masterServers": self.masters,
            "endOffsets": self.ends.to_dict(),
        }
        if self.bad:
            record["badRecords"] = self.bad
        if self.is_retry:
            record["retry"] = True
        if self.undone:
            record["undone"] = self.undone
        if self.known_from > 1:
            record["knownFrom"] = self.known_from
        if self.table_id is not None:
            record["tableId"] = self.table_id
        if self.settled:
            record["settled"] = self.settled
        return json.dumps({_FIELD: record})

    @classmethod
    def parse(cls, text: str | None) -> SinkRecord | None:
        """Parse a commit's userMetadata; None if this job did not write it. ConfigurationError: a newer release did, or
        somebody changed it."""
        try:
            document = json.loads(text or "")
        except (ValueError, RecursionError):
            return None
        record = document.get(_FIELD) if isinstance(document, Mapping) else None
        if not isinstance(record, Mapping):
            return None
        check_version(record.get("version"), _VERSION, "the ingest job's commits to the target")
        return cls(
            _of(record, "consumerGroup", str),
            _of(record, "runId", str),
            Offsets.from_dict(record.get("endOffsets")),
            _of(record, "sequence", int),
            _of(record, "basedOn", int, type(None)),
            tuple(_items(record, "masterServers", str)),
            _of(record, "badRecords", int) if "badRecords" in record else 0,
            _of(record, "retry", bool) if "retry" in record else False,
            tuple(_pair(one) for one in _items(record, "undone", list)) if "undone" in record else (),
            _of(record, "knownFrom", int) if "knownFrom" in record else 1,
            _of(record, "tableId", str) if "tableId" in record else None,
            _of(record, "settled", int) if "settled" in record else 0,
        )


def _of(record: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """A field of the record; ConfigurationError if it is of none of `kinds`, or less than 0."""
    value = record.get(name, _MISSING)
    if type(value) in kinds and not (type(value) is int and value < 0):
        return value
    raise _foreign(f"no {name}" if value is _MISSING else f"{value!r:.100} as {name}")


def _items(record: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    return [_of({name: one}, name, kind) for one in _of(record, name, list)]


def _pair(numbers: list[Any]) -> tuple[int, int]:
    if len(numbers) != 2:
        raise _foreign(f"{numbers!r:.100} in undone")
    first, last = _items({"undone": numbers}, "undone", int)
    return first, last


def _foreign(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the commit's userMetadata has a record of the ingest job, {_FIELD}, with {what}: somebody else wrote or"
        f" changed it. Write no {_FIELD} there yourself, and go on in a clone of the version before"
    )
