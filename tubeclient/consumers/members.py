"""Dynamic membership: who shares a group's partitions now, and which of them are one client's.

All members compute the same from the same list, and their lists differ only until all have looked again. Nothing is
read twice meanwhile, since a broker gives a partition to one client at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from tubeclient.admin import Admin
from tubeclient.assignment import NO_HINTS, Hints, assign, check_strategy
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.flows import hold_group
from tubeclient.keys import PartitionKey
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

MembershipKind = Literal["fixed", "dynamic"]
"""Whether a client is given its place in the group (source_count, node_id), or finds it among the live clients."""

_SETTLING_BEATS = 1.5


def share_of(
    members: Collection[str],
    client_id: str,
    strategy: str,
    partitions: Collection[PartitionKey],
    hints: Hints = NO_HINTS,
) -> list[PartitionKey] | None:
    """The partitions of `client_id` if `members`, client ids in any order, share all partitions. None if it is not a
    member. Their ids are the nodes' names. ConfigurationError for an unknown strategy.
    """
    order = sorted(set(members))
    if client_id not in order:
        return None
    return assign(strategy, partitions, len(order), replace(hints, node_names=order))[order.index(client_id)]


def to_hold(
    share: Collection[PartitionKey] | None, held: Collection[PartitionKey], *, settling: bool
) -> Collection[PartitionKey]:
    """What a client that holds `held` must hold next.

    Without a share (the master does not list the client) it keeps what it has; brokers say which partitions are lost.
    While the group is `settling`, it takes its share and releases nothing yet.
    """
    if share is None:
        return held
    return {*share, *held} if settling else share


class Sharing:
    """One client's share of a group's partitions, by what the master's web port shows of the group's clients.

    For one thread; any thread may call `forgotten`. ConfigurationError for an unknown strategy, and for one that needs
    hints about single nodes, since clients change their nodes when others come or go.
    """

    def __init__(self, settings: ClientSettings, group: str, strategy: str, hints: Hints) -> None:
        if hints != Hints(rooms=hints.rooms, virtual_nodes=hints.virtual_nodes):
            raise ConfigurationError(
                "with dynamic membership no client keeps its node id; leave out all hints but rooms and virtual_nodes"
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
        self._warned: set[str] = set()

    def forgotten(self) -> None:
        """The master has forgotten this client, and perhaps others too, until their next heartbeats.

        Until all had time for a heartbeat, no partition is released. So a restart of the master moves nothing.
        """
        self._settled_at = time.monotonic() + _SETTLING_BEATS * hold_group.HEARTBEAT_INTERVAL_MS / 1000

    @property
    def settling_ms(self) -> float:
        """How long nothing is released yet. 0 once the group has settled."""
        return max(0.0, (self._settled_at - time.monotonic()) * 1000)

    def ours(
        self, client_id: str, partitions: Collection[PartitionKey], held: Collection[PartitionKey]
    ) -> Collection[PartitionKey]:
        """Look at the members; returns the partitions that the client must hold. Raises as `look`."""
        share = share_of(self.look(client_id), client_id, self._strategy, partitions, self._hints)
        self.listed = share is not None
        if not self.listed:
            self.forgotten()
        return to_hold(share, held, settling=self.settling_ms > 0)

    def look(self, client_id: str) -> tuple[str, ...]:
        """The ids of the live clients, sorted. While no master answers, those of its last list that had `client_id`,
        since brokers serve readers without a master too. If there was none yet, raises as Admin.group.
        """
        try:
            members = Admin(self._settings).group(self._group).members
        except TubeError as error:
            if not self.members:
                raise
            self._warn_once("silent", f"assuming that its live clients have not changed: {error}")
            return self.members
        self._warned.discard("silent")
        ids = tuple(sorted(member.client_id for member in members))
        for member in members:
            if member.source_count is not None:
                self._warn_once(
                    member.client_id,
                    f"client {member.client_id} has a sourceCount, so it reads by another rule; "
                    "give all clients of the group the same membership",
                )
        if client_id in ids and ids != self.members:
            _log.info("consumerGroup %s now has %d clients: %s", self._group, len(ids), ", ".join(ids))
            self.members = ids
        return ids

    def _warn_once(self, about: str, text: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            _log.warning("consumerGroup %s: %s", self._group, text)
