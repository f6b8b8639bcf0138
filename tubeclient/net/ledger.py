"""The counts of all clients that this process has, or had."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tubeclient.counts import Counts, Metric, Sample

__all__ = ["enter", "totals"]

Key = tuple[Metric, tuple[str, ...]]


class _Entry(NamedTuple):
    owner: weakref.ref[Any]
    counts: Counts
    now: Callable[[Any], Iterable[Sample]]


class _Ledger:
    """Counts outlive their clients, so that the sums never fall. Those of forgotten clients are kept as one sum."""

    def __init__(self) -> None:
        # Re-entrant: a signal handler may make a client while another one is entered.
        self._lock = threading.RLock()
        self._entries: list[_Entry] = []
        self._past: dict[Key, tuple[float, ...]] = {}

    def enter(self, entry: _Entry) -> None:
        with self._lock:
            self._put_away()
            self._entries.append(entry)

    def totals(self) -> dict[Key, tuple[float, ...]]:
        with self._lock:
            self._put_away()
            found, entries = dict(self._past), list(self._entries)
        for entry in entries:
            _add(found, entry.counts.samples())
            owner = entry.owner()
            if owner is not None:
                _add(found, entry.now(owner))
        return found

    def _put_away(self) -> None:
        """Nobody adds any more to the counts of a client that is gone."""
        gone = [entry for entry in self._entries if entry.owner() is None]
        if gone:
            for entry in gone:
                _add(self._past, entry.counts.samples())
            self._entries = [entry for entry in self._entries if entry not in gone]


def _add(sums: dict[Key, tuple[float, ...]], samples: Iterable[Sample]) -> None:
    for metric, labels, values in samples:
        before = sums.get((metric, labels))
        sums[metric, labels] = values if before is None else tuple(map(sum, zip(before, values, strict=True)))


_ledger = _Ledger()


def enter(owner: object, counts: Counts, now: Callable[[Any], Iterable[Sample]] = lambda _: ()) -> None:
    """Show these counts for ever, and while `owner` lives, also what `now(owner)` gives. No reference to the owner is
    held."""
    _ledger.enter(_Entry(weakref.ref(owner), counts, now))


def totals() -> dict[Key, tuple[float, ...]]:
    """The sums over all clients of this process; a forked child begins with none."""
    return _ledger.totals()


def _begin_anew() -> None:
    global _ledger
    _ledger = _Ledger()


os.register_at_fork(after_in_child=_begin_anew)
