"""Tells packs that a broker, or something on the way, may have changed: with messages doubled or left out.

What a fetch says is too little to be sure. Messages carry no offset. Their ids have no order, and a broker can give one
twice: they are made of a clock that begins anew each 73 minutes (source: Apache's IdWorker). Index entries without a
message may be of other partitions, or damaged on the broker's disk. So a pack that looks wrong is only doubted: it is
read again, and what comes again is taken as it is, since the same offsets always give the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["READINGS", "PackCheck"]

READINGS = 5
"""How often a pack is read that comes differently each time."""

_NONE: frozenset[int] = frozenset()


class PackCheck:
    """Checks the packs of a partition as they come. `alone`: each index entry is one of its messages, unless the broker
    lost it."""

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone
        self.doubts = 0
        """How often the present pack was doubted."""
        self._before: tuple[int, frozenset[int]] = 0, _NONE
        """Start and ids of the pack that was well last."""
        self._doubted: tuple[int, Sequence[int]] | None = None

    def doubt(self, start: int, ids: Sequence[int], *, lacking: int = 0) -> str:
        """Why the pack from offset `start` on must be read again, "" if it is well. `ids` are those of its messages;
        `lacking` index entries up to its end gave none.

        A pack may have another end when it comes again: that depends on what the broker holds then.
        """
        different = frozenset(ids)
        reason = ""
        if len(different) < len(ids):
            reason = "a message came twice in a pack"
        elif start > self._before[0] and ids and ids[0] in self._before[1]:  # all ids would cost half as much again
            reason = "a pack began with a message of the pack before"
        elif self._alone and lacking > 0:
            reason = f"{lacking} index entries came without a message, in a store of one partition"
        if reason and not self._came_again(start, ids):
            self._doubted = start, ids
            self.doubts += 1
            return reason
        self._before, self._doubted, self.doubts = (start, different), None, 0
        return ""

    def _came_again(self, start: int, ids: Sequence[int]) -> bool:
        if self._doubted is None or self._doubted[0] != start:
            return False
        common = min(len(ids), len(self._doubted[1]))
        return ids[:common] == self._doubted[1][:common]
