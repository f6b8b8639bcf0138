"""Partitions whose broker was down when the query began: where they begin is settled when it answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_source.offsets.offset_spec import GroupPositions, OffsetSpec
from spark_source.offsets.offsets import Offsets
from spark_source.stream.beginning import OffsetFinder
from spark_source.stream.silent_brokers import some_of
from spark_source.stream.snapshot import Snapshot
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey

__all__ = ["LateStarts"]

_log = logging.getLogger(__name__)


class LateStarts:
    """Finds the offsets of partitions that wait, at the places that were asked for when the query began.

    `latest` is where the store ends when its broker is heard first here. Others may have written to it since the query
    began, as the broker may be out of reach from here alone, or back for a while before it is asked again: that is not
    read, and a warning says how much it may be. For `group` the offsets table was asked when the query began; what is
    left is what the brokers keep.
    """

    def __init__(self, finder: OffsetFinder) -> None:
        self._finder = finder
        self._undecided: tuple[Mapping[PartitionKey, str], frozenset[StoreKey]] | None = None
        """What an attempt that settled nothing was about: the brokers need not be asked the same again."""
        self._trouble = False

    def entering(
        self, offsets: Offsets, snapshot: Snapshot, bounds: Mapping[StoreKey, StoreBounds]
    ) -> Mapping[PartitionKey, int]:
        """Return the offsets of those waiting in `offsets` that can be settled within `bounds` now. ConfigurationError
        as for the start of a query; a broker that goes down meanwhile is a warning, and asked again the next time.
        """
        readable = snapshot.layout.readable
        waiting = {key: at for key, at in offsets.waiting.items() if key.store in bounds and key in readable}
        question = (waiting, frozenset(bounds))
        if not waiting or question == self._undecided:
            return {}
        view = snapshot.layout.view_read
        told = GroupPositions({})

        def on_brokers() -> GroupPositions:
            nonlocal told
            told = self._finder.positions_on_brokers(view, snapshot.bounds)
            return told

        try:
            settled = self._finder.find(OffsetSpec.of_waiting(waiting), waiting.keys(), view, bounds, on_brokers)
        except ConfigurationError:
            raise
        except TubeError as error:
            if not self._trouble:
                _log.warning("where %s begins cannot be settled yet, trying again: %s", min(waiting), error)
            self._trouble = True
            return {}
        self._trouble = False
        self._undecided = None if settled else question
        if settled:
            _log.info("partitions whose broker did not answer when the query began enter now: %s", settled)
            known_topics = {key.topic for key in told.positions}
            by_fallback = self._finder.rules.fallback == "latest"
            _warn_of_left_out(
                {
                    key: at
                    for key, at in settled.items()
                    if waiting[key] == "latest"
                    or (by_fallback and waiting[key] == "group" and key.topic not in known_topics)
                },
                bounds,
            )
        return settled


def _warn_of_left_out(at_latest: Mapping[PartitionKey, int], bounds: Mapping[StoreKey, StoreBounds]) -> None:
    """Say what is not read of partitions that enter at their end: nobody knows which of it came after the start."""
    for store in sorted({key.store for key in at_latest}):
        low, entered = bounds[store].min_offset, max(at for key, at in at_latest.items() if key.store == store)
        if entered > low:
            _log.warning(
                "%s began to wait at latest when the query began, and enter now, at %d: what was written there "
                "meanwhile is not read. It lies between %d and %d, with what was there before, at most %d messages. "
                "To read it, give these offsets to a batch read",
                some_of([key for key in at_latest if key.store == store]),
                entered,
                low,
                entered,
                (entered - low) // INDEX_ENTRY_BYTES,
            )
