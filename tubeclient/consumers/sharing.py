"""A member's share of a group's partitions, by what the master's web port shows of the group's clients."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from tubeclient.admin import Admin
from tubeclient.assignment import Hints, assign, check_strategy
from tubeclient.assignment.relief import Observed, Progress, Relief
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.flows import hold_group
from tubeclient.keys import PartitionKey
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

_SETTLING_BEATS = 1.5


class Sharing:
    """One client's share of a group's partitions, by what the master's web port shows of the group's clients.

    All members compute the same from the same list, and their lists differ only until all have looked again. Nothing is
    read twice meanwhile, since a broker gives a partition to one client at a time. For one thread; any thread may call
    `forgotten`.
    """

    def __init__(self, settings: ClientSettings, group: str, strategy: str, hints: Hints) -> None:
        if hints != Hints(rooms=hints.rooms, virtual_nodes=hints.virtual_nodes):
            raise ConfigurationError(
                "with dynamic membership no client keeps its node id; remove all hints except rooms and virtual_nodes"
            )
        check_strategy(strategy, 1, hints)
        self.members: tuple[str, ...] = ()
        """The live clients by the master's last list that had this one, sorted."""
        self.listed = True
        """Whether the last list had this client."""
        self._settings = settings
        self._group = group
        self._strategy = strategy
        self._hints = hints
        self._settled_at = 0.0
        self._owners: dict[PartitionKey, str] = {}
        """Who reports which partition, by the last list."""
        self._relief: Relief | None = None
        self._positions_ms = 0.0
        self._asked_at = float("-inf")

    def relieve(self, client_id: str, *, balance_ms: float, confirm_timeout_ms: float) -> None:
        """Let slow members give partitions to others: brokers are asked for positions every `balance_ms`."""
        window_ms = max(balance_ms, confirm_timeout_ms)  # a pack takes no longer
        self._relief = Relief(client_id, window_ms=window_ms, free_ms=1.5 * balance_ms)
        self._positions_ms = balance_ms

    def forgotten(self) -> None:
        """The master has forgotten this client, and perhaps others too, until their next heartbeats.

        Until all had time for a heartbeat, no partition is released. So a restart of the master moves nothing.
        """
        self._settled_at = time.monotonic() + _SETTLING_BEATS * hold_group.HEARTBEAT_INTERVAL_MS / 1000

    @property
    def settling(self) -> bool:
        """Whether nothing is released yet."""
        return time.monotonic() < self._settled_at

    def ours(
        self,
        client_id: str,
        partitions: Collection[PartitionKey],
        owned: Sequence[PartitionKey],
        *,
        is_polled: bool = True,
    ) -> Sequence[PartitionKey]:
        """The partitions that a client that owns `owned` must own next, by the members. Raises as `live_clients`.

        If the master does not list the client, it keeps what it has; brokers say which partitions are lost. While the
        group is settling, it takes its share and releases nothing yet.
        """
        order = self.live_clients(client_id)
        self.listed = client_id in order
        if not self.listed:
            self.forgotten()
            return owned
        hints = replace(self._hints, node_names=order)
        share = assign(self._strategy, partitions, len(order), hints)[order.index(client_id)]
        if self._relief is not None:
            seen = Observed(order, self._owners, self._progress({key.topic for key in partitions}))
            share = sorted(self._relief.wanted(partitions, share, seen, time.monotonic() * 1000, is_polled=is_polled))
        return [*share, *set(owned).difference(share)] if self.settling else share

    def _progress(self, topics: Collection[str]) -> dict[PartitionKey, Progress] | None:
        """The group's positions, if it is time to ask the brokers, and they answer."""
        now = time.monotonic()
        if now - self._asked_at < self._positions_ms / 1000:
            return None
        self._asked_at = now
        try:
            found = Admin(self._settings).group_offsets(self._group, topics)
        except TubeError as error:
            _log.info("consumerGroup %s: not looking for slow members now: %s", self._group, error)
            return None
        return {position.partition: Progress(position.committed, position.end) for position in found.positions}

    def live_clients(self, client_id: str) -> tuple[str, ...]:
        """The ids of the live clients, sorted. While no master answers, those of its last list that had `client_id`,
        since brokers serve readers without a master too. If there was none yet, raises as Admin.group.
        """
        try:
            members = Admin(self._settings).group(self._group).members
        except TubeError as error:
            if not self.members:
                raise
            _log.warning("consumerGroup %s: assuming that its live clients have not changed: %s", self._group, error)
            return self.members
        ids = tuple(sorted(member.client_id for member in members))
        self._owners = {key: member.client_id for member in members for key in member.partitions}
        if client_id in ids and ids != self.members:
            _log.info("consumerGroup %s now has %d clients: %s", self._group, len(ids), ", ".join(ids))
            self.members = ids
        return ids
