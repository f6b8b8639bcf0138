"""A consumer's reactions to events of its flows: callbacks, threads that keep leases, log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from tubeclient.flows.consume import Unconfirmed
from tubeclient.flows.fetch import Expired, KeptBad
from tubeclient.flows.keep_leases import keep_leases
from tubeclient.flows.registrar import Trouble
from tubeclient.flows.registrations import Assigned, Closed, Lost
from tubeclient.keys import PartitionKey
from tubeclient.net.callbacks import call_back
from tubeclient.net.forgotten import weakly
from tubeclient.running_consumer import Running

__all__ = ["ConsumerEvents"]

_log = logging.getLogger(__name__)

_TELL_SECONDS = 30.0
"""The shortest time between two log lines about a broker in trouble."""
_LOOK_SECONDS = 1.0
"""The shortest time between two looks at the layout for closed partitions; there may be thousands."""


class ConsumerEvents:
    """Only the consumer refers to it, so threads that outlive a forgotten consumer ignore events."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[type, Callable[[Any], None]]] = []
        self._next_look = 0.0
        self._next_telling: dict[int, float] = {}

    def call(self, kind: type, callback: Callable[[Any], None]) -> None:
        """Call `callback` for each event of that kind; its errors are logged."""
        self._callbacks.append((kind, callback))

    def handle(self, running: Running, event: object) -> None:
        """Handle an event."""
        if isinstance(event, Assigned):
            self._keep_leases(running, event.partition)
        elif isinstance(event, Expired):
            _log.warning("expired before they were read: %s", event.lost)
        elif isinstance(event, KeptBad):
            _log.warning(
                "partition %s, in the pack from offset %d on: %d bad messages are kept. The first has id %d: %s",
                event.partition,
                event.start,
                event.messages,
                event.first_id,
                event.first_reason,
            )
        elif isinstance(event, Unconfirmed):
            _log.warning("%r could not be confirmed: %s", event.delivery, event.error)
        elif isinstance(event, Trouble):
            self._tell(event)
        elif isinstance(event, Closed):
            self._look(running)
        elif isinstance(event, Lost):
            _log.warning("partition %s is lost: %s", event.partition, event.error)
            running.report()
        for kind, callback in self._callbacks:
            if isinstance(event, kind):
                call_back(callback, event)

    def jump(self, running: Running) -> None:
        """Continue after the last message of every partition, on a separate thread."""
        running.spawn("tubeclient-jump", running.registrations.jump_to_latest(), weakly(self.handle))

    def _tell(self, event: Trouble) -> None:
        """Tries repeat several times a second, usually with the same failure, so log rarely."""
        now = monotonic()
        if now >= self._next_telling.get(event.broker.broker_id, 0.0):
            self._next_telling[event.broker.broker_id] = now + _TELL_SECONDS
            _log.warning("partitions at broker %s wait; trying again: %s", event.broker, event.error)

    def _look(self, running: Running) -> None:
        """A broker contradicts the known layout; each further refusal calls this again."""
        now = monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            running.membership.look()

    def _keep_leases(self, running: Running, key: PartitionKey) -> None:
        with running.monitor.lock:
            line = running.registrations.holdings.lines[key.broker_id]
            if line.kept:
                return
            line.kept = True
        try:
            running.spawn(
                f"tubeclient-lease-{line.info.broker_id}",
                keep_leases(running.registrations, line),
                weakly(self.handle),
                partial(setattr, line, "kept", False),
            )
        except BaseException:
            line.kept = False
            raise
