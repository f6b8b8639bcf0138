"""The web calls of a cluster's masters, of which the active one answers, and of its brokers, which need no token."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tubeclient.admin.answers import (
    BrokerState,
    DeployedTopic,
    PartitionPosition,
    to_brokers,
    to_files,
    to_group_names,
    to_positions,
    to_topics,
    value_of,
)
from tubeclient.errors import ProtocolError, StandbyMaster, TransportError, TubeError
from tubeclient.keys import PartitionKey, StoreFiles, StoreKey
from tubeclient.names import topic_names
from tubeclient.net.http import query_broker, query_master
from tubeclient.settings import ClientSettings

WEB_ADVICE: Final = "check master_servers and master_web_port"

_log = logging.getLogger(__name__)

_MAX_NAMES: Final = 1_000
"""The most names or partition keys in one call. The servers' Jetty takes forms of up to 200 000 bytes, and names have
up to 64 characters."""

T = TypeVar("T")


def _listed(names: Collection[str]) -> str:
    """A list parameter; it is empty, which means all, for none and for too many."""
    return ",".join(names) if len(names) <= _MAX_NAMES else ""


@dataclass(frozen=True, slots=True)
class BrokerWeb:
    """The broker `broker_id` with its HTTP interface at `address` ("host:port").

    Every method raises TransportError without an answer, RemoteError if the broker refuses, and ProtocolError if the
    answer is not a broker's.
    """

    broker_id: int
    address: str
    timeout_ms: int

    def files(self, topics: Collection[str] = ()) -> dict[StoreKey, StoreFiles]:
        """The files of the stores of these topics, or of all topics, and maybe of others; without stores that were
        never written to."""
        return self._ask(
            "admin_query_pubinfo", lambda answer: to_files(answer, self.broker_id), topicName=_listed(topics)
        )

    def positions(self, group: str, topics: Collection[str] = ()) -> list[PartitionPosition]:
        """The positions of `group` in these topics, or in all; sorted. A new position shows up to 5 s late, after the
        broker has saved it (BrokerConfig.offsetStgCacheFlushMs)."""
        found = self._ask(
            "admin_query_offset",
            lambda answer: to_positions(answer, self.broker_id, group),
            groupName=group,
            topicName=_listed(topics),
        )
        return [one for one in found if not topics or one.partition.topic in topics]

    def groups(self) -> frozenset[str]:
        """The groups of which the broker keeps a position in any topic."""
        return self._ask("admin_get_booked_groupname", to_group_names)

    def set_positions(self, group: str, offsets: Mapping[PartitionKey, int], user: str) -> None:
        """Set positions of this broker's partitions; those outside a store's bounds are clamped. What the group has in
        flight is dropped.

        Topics that the broker does not have are skipped, and a store that was never written to is created.
        """
        wanted = sorted(offsets.items())
        for start in range(0, len(wanted), _MAX_NAMES):
            part = {str(key): offset for key, offset in wanted[start : start + _MAX_NAMES]}
            self._ask(
                "admin_set_offset",
                lambda _: None,
                groupName=group,
                manualSet="true",
                offsetJsonInfo=json.dumps(part, separators=(",", ":")),
                modifyUser=user,
            )

    def _ask(self, method: str, to_value: Callable[[Any], T], **parameters: str) -> T:
        answer = query_broker(self.address, method, self.timeout_ms, **parameters)
        return value_of(answer, to_value, f"http://{self.address} answered {method}")


class MasterWeb:
    """Queries the masters of `settings` in order, each for `http_timeout_ms`, until an active one answers."""

    def __init__(self, settings: ClientSettings) -> None:
        self._timeout_ms = settings.http_timeout_ms
        # IPv6 addresses keep their brackets.
        self.addresses = [
            f"{master.rpartition(':')[0]}:{settings.master_web_port}" for master in settings.master_servers
        ]

    def ask(self, method: str, to_value: Callable[[Any], T], **parameters: str) -> T:
        """`to_value` of the answer. RemoteError if the active master refuses. If no master answers, a TransportError
        with the reasons of all, or the ProtocolError or StandbyMaster of the only one."""
        failures: list[TubeError] = []
        for address in self.addresses:
            try:
                answer = query_master(address, method, self._timeout_ms, **parameters)
                return value_of(answer, to_value, f"http://{address} answered {method}")
            except (TransportError, ProtocolError, StandbyMaster) as error:
                _log.debug("no help with %s from master %s: %s", method, address, type(error).__name__)
                failures.append(error)
        if len(failures) == 1 and not isinstance(failures[0], TransportError):
            raise failures[0]
        raise TransportError(
            f"no master answered at its web port: {'; '.join(map(str, failures))}; {WEB_ADVICE}",
            condition="MASTER_UNREACHABLE",
        ) from failures[0]

    def brokers(self) -> list[BrokerState]:
        """All brokers in the master's configuration, sorted by id."""
        return self.ask("admin_query_broker_run_status", to_brokers)

    def topics(self, names: Iterable[str] = ()) -> list[DeployedTopic]:
        """These topics, or all, sorted by name; without those that are not deployed."""
        wanted = topic_names(names)
        found = self.ask("admin_query_topic_info", to_topics, topicName=_listed(wanted))
        return [topic for topic in found if not wanted or topic.name in wanted]
