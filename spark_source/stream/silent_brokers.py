"""Brokers that do not answer: log lines, and the offsets of partitions whose broker was down when the query began."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_source.offsets.offset_spec import GroupPositions, OffsetSpec
from spark_source.offsets.offsets import Offsets
from spark_source.stream.beginning import OffsetFinder
from spark_source.stream.snapshot import Snapshot
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey

__all__ = ["LateStarts", "SilentBrokers", "some_of"]

_log = logging.getLogger(__name__)

_NAMED = 3


class SilentBrokers:
    """Remembers which brokers were reported."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def tell(self, snapshot: Snapshot) -> None:
        """Warn of each newly silent broker, with its partitions."""
        for broker_id in sorted(self._told - snapshot.silent.keys()):
            self._told.discard(broker_id)
            _log.info("broker %d answers again", broker_id)
        for broker_id in sorted(snapshot.silent.keys() - self._told):
            self._told.add(broker_id)
            waiting = snapshot.untold_of(broker_id)
            _log.warning(
                "broker %s does not answer for now, and %s wait for it: they keep their positions or starting offsets; "
                "other brokers are read on. The reason: %s",
                snapshot.view.brokers[broker_id],
                some_of(waiting),
                snapshot.silent[broker_id],
            )


def some_of(partitions: list[PartitionKey]) -> str:
    """The number of partitions, and the first of them."""
    named = ", ".join(map(str, partitions[:_NAMED]))
    more = f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else ""
    return f"{len(partitions)} partition{'' if len(partitions) == 1 else 's'} ({named}{more})"


class LateStarts:
    """Finds the offsets of waiting partitions, from the starting options of the query.

    `latest` is the store's end when its broker first answers here. Others may have written to it since the query began:
    the broker may have been unreachable only from here, or back for a while. Those messages are not read, and a warning
    says how many there may be. For `group` the query asked the offsets table when it began; now only the brokers'
    positions are left.
    """

    def __init__(self, finder: OffsetFinder) -> None:
        self._finder = finder
        self._undecided: tuple[Mapping[PartitionKey, str], frozenset[StoreKey]] | None = None
        """The subject of the last attempt without a result: the brokers need not be asked the same again."""
        self._trouble = False

    def entering(
        self, offsets: Offsets, snapshot: Snapshot, bounds: Mapping[StoreKey, StoreBounds]
    ) -> Mapping[PartitionKey, int]:
        """Return the offsets of those waiting in `offsets` that can be found within `bounds` now. ConfigurationError as
        at the query's start. If a broker goes down meanwhile, this logs a warning and the next call tries again."""
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
                _log.warning("cannot find the starting offset of %s yet, trying again: %s", min(waiting), error)
            self._trouble = True
            return {}
        self._trouble = False
        self._undecided = None if settled else question
        if settled:
            _log.info("brokers that were silent when the query began answer now; their partitions enter: %s", settled)
            known_topics = {key.topic for key in told.positions}
            _warn_of_left_out(
                {
                    key: at
                    for key, at in settled.items()
                    if waiting[key] == "latest" or (waiting[key] == "group:latest" and key.topic not in known_topics)
                },
                bounds,
            )
        return settled


def _warn_of_left_out(at_latest: Mapping[PartitionKey, int], bounds: Mapping[StoreKey, StoreBounds]) -> None:
    """Warn of messages that are not read in partitions that enter at their end: nobody knows which of them came after
    the start."""
    for store in sorted({key.store for key in at_latest}):
        low, entered = bounds[store].min_offset, max(at for key, at in at_latest.items() if key.store == store)
        if entered > low:
            _log.warning(
                "%s waited for `latest` since the query began, and enter now, at %d. Messages written in between are "
                "not read. They are between %d and %d, together with older ones, at most %d messages. "
                "To read them, give these offsets to a batch read",
                some_of([key for key in at_latest if key.store == store]),
                entered,
                low,
                entered,
                (entered - low) // INDEX_ENTRY_BYTES,
            )
