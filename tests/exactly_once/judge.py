"""The verdict: compares what producers were told, what the brokers hold and what the table has. Pure.

A message is identified by its position (partition and message id) and by the number in its body. A producer without an
answer sends the number again, to another position: that makes two messages. The table must have both, and they are
counted separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Place", "Row", "Verdict", "judge"]

_SHOWN = 5


class Place(NamedTuple):
    """Where a message is: "brokerId:topic:partitionId", and an id that is its own within a store."""

    partition: str
    message_id: int


class Row(NamedTuple):
    """One message, as a broker holds it or the table has it."""

    place: Place
    number: int


@dataclass(frozen=True)
class Verdict:
    """What the comparison found; lists are sorted."""

    acknowledged: int
    unknown: int
    """Numbers of which no producer can say whether they arrived."""
    held: int
    """Messages that the brokers hold."""
    in_table: int
    doubled: list[Row]
    """Messages that the table has more than once."""
    missing: list[Row]
    """Messages that the brokers hold and the table has not."""
    strange: list[Row]
    """Messages that the table has, and neither brokers hold nor producers wrote them there."""
    gone: list[Row]
    """Messages that were acknowledged, and no broker holds."""
    gone_and_read: list[Row]
    """Those of them that the table has."""
    sent_again: list[int]
    """Numbers that are in two places, as their producer had no answer to the first."""
    unheard: int
    """Numbers without an answer that arrived."""

    @property
    def once(self) -> bool:
        """The table has each message that the brokers hold, and none twice."""
        return not (self.doubled or self.missing or self.strange)

    @property
    def whole(self) -> bool:
        """And the brokers hold all that they took."""
        return self.once and not self.gone

    def lines(self) -> list[str]:
        """The figures, for people."""
        return [
            f"messages acknowledged   {self.acknowledged:,}",
            f"  without an answer     {self.unknown:,}, of which {self.unheard:,} arrived",
            f"  sent again            {len(self.sent_again):,}{_some(self.sent_again)}",
            f"held by the brokers     {self.held:,}",
            f"rows in the table       {self.in_table:,}",
            f"doubled                 {len(self.doubled):,}{_some(self.doubled)}",
            f"missing                 {len(self.missing):,}{_some(self.missing)}",
            f"of unknown origin       {len(self.strange):,}{_some(self.strange)}",
            f"lost by the brokers     {len(self.gone):,}, of which the table has {len(self.gone_and_read):,}",
        ]


def judge(
    acknowledged: Mapping[int, Place], unknown: Iterable[int], held: Iterable[Row], table: Iterable[Row]
) -> Verdict:
    """Compare. `held` are the messages of all brokers after the last write, `table` the rows after the last round."""
    there, has = Counter(held), Counter(table)
    written = {Row(place, number) for number, place in acknowledged.items()}
    places = Counter(row.number for row in there)
    unsure = set(unknown)
    gone = written - there.keys()
    return Verdict(
        acknowledged=len(written),
        unknown=len(unsure),
        held=there.total(),
        in_table=has.total(),
        doubled=sorted(row for row, count in has.items() if count > 1),
        missing=sorted(there.keys() - has.keys()),
        strange=sorted(has.keys() - there.keys() - written),
        gone=sorted(gone),
        gone_and_read=sorted(gone & has.keys()),
        sent_again=sorted(number for number, count in places.items() if count > 1),
        unheard=len(unsure & places.keys()),
    )


def _some(items: list[Row] | list[int]) -> str:
    return f": {', '.join(map(str, items[:_SHOWN]))}{' ...' if len(items) > _SHOWN else ''}" if items else ""
