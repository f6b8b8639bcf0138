"""Dynamic membership: who shares a group's partitions now, and which of them are one client's.

All members compute the same from the same list, and their lists differ only until all have looked again. Nothing is
read twice meanwhile, since a broker gives a partition to one client at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from tubeclient.admin import Admin
from tubeclient.assignment import Hints, assign, check_strategy
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.flows import hold_group
from tubeclient.keys import PartitionKey
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

MembershipKind = Literal["fixed", "dynamic"]
"""Whether a client is given its place in the group (source_count, node_id), or finds it among the live clients."""

_SETTLING_BEATS = 1.5


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
        self._silent = False
        self._warned: set[str] = set()

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
        self, client_id: str, partitions: Collection[PartitionKey], held: Sequence[PartitionKey]
    ) -> Sequence[PartitionKey]:
        """Look at the members; returns the partitions that a client that holds `held` must hold next. Raises as `look`.

        If the master does not list the client, it keeps what it has; brokers say which partitions are lost. While the
        group is settling, it takes its share and releases nothing yet.
        """
        order = self.look(client_id)
        self.listed = client_id in order
        if not self.listed:
            self.forgotten()
            return held
        hints = replace(self._hints, node_names=order)
        share = assign(self._strategy, partitions, len(order), hints)[order.index(client_id)]
        return [*share, *set(held).difference(share)] if self.settling else share

    def look(self, client_id: str) -> tuple[str, ...]:
        """The ids of the live clients, sorted. While no master answers, those of its last list that had `client_id`,
        since brokers serve readers without a master too. If there was none yet, raises as Admin.group.
        """
        try:
            members = Admin(self._settings).group(self._group).members
        except TubeError as error:
            if not self.members:
                raise
            if not self._silent:
                _log.warning(
                    "consumerGroup %s: assuming that its live clients have not changed: %s", self._group, error
                )
            self._silent = True
            return self.members
        self._silent = False
        ids = tuple(sorted(member.client_id for member in members))
        counted = {member.client_id for member in members if member.source_count is not None} - self._warned
        self._warned |= counted
        if counted:
            _log.warning(
                "consumerGroup %s: client %s has a sourceCount, so it reads by another rule; give all clients of the "
                "group the same membership",
                self._group,
                ", ".join(sorted(counted)),
            )
        if client_id in ids and ids != self.members:
            _log.info("consumerGroup %s now has %d clients: %s", self._group, len(ids), ", ".join(ids))
            self.members = ids
        return ids
