"""Reads a topic as a group, which then moves, to where each partition ended when this client got it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tubeclient.errors import DeadlineExceeded, NotAvailable, TubeError
from tubeclient.names import topic_name
from tubeclient.pull_consumer import PullConsumer
from tubeclient_cli.consume.wanted import Wanted, listed

if TYPE_CHECKING:
    from tubeclient.flows.read_plan import StartFrom
    from tubeclient.keys import PartitionKey
    from tubeclient.settings import ClientSettings
    from tubeclient_cli.consume.output import Output

__all__ = ["as_group"]

_STEP_SECONDS: Final = 0.5
_QUIET_SECONDS: Final = 3.0
"""So long without a message, and it is looked why."""


def as_group(settings: ClientSettings, group: str, wanted: Wanted, output: Output, tell: Callable[[str], None]) -> None:
    """Read as a group from its position, and confirm what was printed. `tell` gets a text if it has to wait,
    and if `output` was full inside a pack.

    Raises TubeError; DeadlineExceeded names the partitions that gave nothing for `retry_limit_ms` before their end.
    """
    start: StartFrom = "latest" if wanted.start.default == "latest" else "earliest"
    topics = {topic_name(wanted.topic): wanted.tags}
    with PullConsumer(settings, group, topics, start_from=start, bad_messages="keep") as consumer:
        way = _Way(consumer, patience_seconds=settings.retry_limit_ms / 1000, tell=tell)
        looked = time.monotonic()
        while not output.is_full:
            began = time.monotonic()
            delivery = consumer.get(timeout_ms=_STEP_SECONDS * 1000)
            way.waited(time.monotonic() - began)
            if delivery is not None:
                # A pack is confirmed as a whole or not at all: what is cut off comes again.
                output.write(delivery, None)
                output.flush()
                consumer.confirm(delivery, consumed=not output.is_cut)
                if output.is_cut:
                    tell(
                        f"the group stays at {delivery.start} in partition {delivery.partition}, and what was printed "
                        "from there comes again: --max-messages ended inside a pack, which is confirmed as a whole or "
                        "not at all"
                    )
                way.heard(delivery.partition)
            if wanted.follow or (delivery is not None and time.monotonic() - looked < _STEP_SECONDS):
                continue
            looked = time.monotonic()
            if way.is_done():
                return


class _Way:
    """The partitions that have not reached their end. Only time in which this client waited for messages counts: a
    reader of the output may be slow."""

    def __init__(self, consumer: PullConsumer, *, patience_seconds: float, tell: Callable[[str], None]) -> None:
        self._consumer = consumer
        self._patience = patience_seconds
        self._tell = tell
        self._tags = any(consumer.topics.values())
        self._ends: dict[PartitionKey, int] = {}
        """Where partitions ended when they were first seen connected."""
        self._stood: dict[PartitionKey, int] = {}
        """Where the group stood in quiet partitions."""
        keys = sorted(consumer.partitions())
        partitions_of = Counter(key.store for key in keys)
        self._shared = {key for key in keys if partitions_of[key.store] > 1}
        self._quiet_since = dict.fromkeys(keys, 0.0)
        """By partition that is not done."""
        self._checked_at = dict.fromkeys(keys, 0.0)
        self._clock = 0.0
        self._told = False

    def waited(self, seconds: float) -> None:
        """So long no message came."""
        self._clock += seconds

    def heard(self, key: PartitionKey) -> None:
        """Messages of this partition came."""
        if key in self._quiet_since:
            self._quiet_since[key] = self._checked_at[key] = self._clock

    def is_done(self) -> bool:
        """Whether all partitions reached their end. DeadlineExceeded if the others have been silent for too long."""
        positions = self._consumer.positions()
        for key in list(self._quiet_since):
            position = positions.get(key)
            if position is None:
                continue
            end = self._ends.setdefault(key, position.end)
            if position.confirmed >= end or self._has_nothing(key, end):
                del self._quiet_since[key]
        quiet = [self._clock - since for since in self._quiet_since.values()]
        if quiet and min(quiet) >= self._patience:
            raise DeadlineExceeded(
                f"{listed(self._quiet_since)} gave nothing for {self._patience:.0f} s, before the end was reached. "
                "What was printed is confirmed. Check their brokers, and whether other clients of the group have them"
            )
        if quiet and min(quiet) >= _QUIET_SECONDS and not self._told:
            self._told = True
            self._tell(f"waiting up to {self._patience:.0f} s for {listed(self._quiet_since)}")
        return not quiet

    def _has_nothing(self, key: PartitionKey, end: int) -> bool:
        """Whether only entries of other partitions, or of other tags, lie before the end. The broker passes over them
        without a word, so its position is looked up; it is at its end, or stands still."""
        if not (self._tags or key in self._shared) or self._clock - self._checked_at[key] < _QUIET_SECONDS:
            return False
        self._checked_at[key] = self._clock
        began = time.monotonic()
        try:
            stands = self._consumer.connect(key)
        except TubeError as error:
            if not error.retriable and not isinstance(error, NotAvailable):
                raise
            # Its other partitions would wait for the same.
            self._checked_at |= {other: self._clock for other in self._quiet_since if other.broker_id == key.broker_id}
            return False
        finally:
            self.waited(time.monotonic() - began)
        if stands >= end or stands == self._stood.get(key):
            return True
        self._stood[key] = stands
        self._quiet_since[key] = self._clock
        return False
