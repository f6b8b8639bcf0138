"""What the master tells clients of a group to do about their partitions, one thing at a time.

Source: ConsumerEventManager, and TMaster.processRebalance. A client is told in the answer to a heartbeat, and reports
in a later one. While anybody in the group has something to give up, nobody is told to take anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from embedded_tubemq.master.allocation import Allocation, Held
from tubeclient.keys import PartitionKey

__all__ = ["Event", "EventQueues", "EventType", "planned_events"]


class EventType(IntEnum):
    """The values of opType (source: EventType). The ONLY kinds come alone; the others are halves of one change."""

    CONNECT = 1
    DISCONNECT = 2
    ONLY_CONNECT = 10
    ONLY_DISCONNECT = 20


_GIVES_UP = (EventType.DISCONNECT, EventType.ONLY_DISCONNECT)


@dataclass(slots=True)
class Event:
    """A client shall take these partitions, or give them up. It is sent once, and stays until the client reports."""

    round_id: int
    kind: EventType
    partitions: tuple[PartitionKey, ...]
    sent: bool = False

    @property
    def gives_up(self) -> bool:
        """Whether the client shall give the partitions up."""
        return self.kind in _GIVES_UP


def planned_events(round_id: int, held: Held, wanted: Allocation) -> dict[str, list[Event]]:
    """What turns `held` into `wanted`, for each client that has to do something: to give up comes first."""
    planned: dict[str, list[Event]] = {}
    for client, keys in wanted.items():
        has, shall_have = set(held.get(client) or ()), set(keys)
        lost, won = tuple(sorted(has - shall_have)), tuple(sorted(shall_have - has))
        if lost:
            kind = EventType.DISCONNECT if won else EventType.ONLY_DISCONNECT
            planned.setdefault(client, []).append(Event(round_id, kind, lost))
        if won:
            kind = EventType.CONNECT if lost else EventType.ONLY_CONNECT
            planned.setdefault(client, []).append(Event(round_id, kind, won))
    return planned


@dataclass(slots=True)
class EventQueues:
    """The open events of one group: by client, in order, those to give something up apart from the others."""

    _giving_up: dict[str, list[Event]] = field(default_factory=dict)
    _taking: dict[str, list[Event]] = field(default_factory=dict)

    def add(self, client: str, events: Iterable[Event]) -> None:
        """Put events at the end of a client's queues."""
        for event in events:
            queues = self._giving_up if event.gives_up else self._taking
            queues.setdefault(client, []).append(event)

    def next_to_send(self, client: str) -> Event | None:
        """The client's next event, which counts as sent from now on; None if there is none or it is with the client."""
        queue = self._present().get(client)
        if not queue or queue[0].sent:
            return None
        queue[0].sent = True
        return queue[0]

    def done(self, client: str) -> None:
        """Handle a client's report that it has done what it was told."""
        queues = self._present()
        queue = queues.get(client, [])
        del queue[:1]
        if not queue:
            queues.pop(client, None)

    def forget(self, client: str) -> None:
        """Drop the client's events."""
        self._giving_up.pop(client, None)
        self._taking.pop(client, None)

    def clients(self) -> set[str]:
        """The clients with open events."""
        return {*self._giving_up, *self._taking}

    def _present(self) -> dict[str, list[Event]]:
        return self._giving_up or self._taking
