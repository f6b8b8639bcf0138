"""The web calls of a cluster's masters; the active one answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from tubeclient.admin.answers.fields import Fields
from tubeclient.admin.answers.master import to_brokers, to_topics
from tubeclient.admin.answers.model import BrokerState, DeployedTopic
from tubeclient.admin.broker import lists_of
from tubeclient.errors import ProtocolError, StandbyMaster, TransportError, TubeError
from tubeclient.net.http import query_master
from tubeclient.settings import ClientSettings

WEB_ADVICE: Final = (
    "check master_servers and master_web_port, in Spark masterServers and masterWebPort, in commands --master-servers "
    "and --option masterWebPort=PORT"
)

_log = logging.getLogger(__name__)
T = TypeVar("T")


class MasterWeb:
    """Queries the masters of `settings` in order, each for `http_timeout_ms`, until an active one answers."""

    def __init__(self, settings: ClientSettings) -> None:
        self._timeout_ms = settings.http_timeout_ms
        # IPv6 addresses keep their brackets.
        self.addresses = [
            f"{master.rpartition(':')[0]}:{settings.master_web_port}" for master in settings.master_servers
        ]

    def ask(self, method: str, to_value: Callable[[Fields], T], **parameters: str) -> T:
        """Return `to_value` of the answer.

        Raises RemoteError if the active master refuses. If no master answers, raises a TransportError with the reasons
        of all, or the ProtocolError or StandbyMaster of the only one.
        """
        failures: list[TubeError] = []
        for address in self.addresses:
            try:
                answer = query_master(address, method, self._timeout_ms, **parameters)
                return to_value(Fields(answer, f"http://{address} answered {method}"))
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
        return [
            topic for part in lists_of(names) for topic in self.ask("admin_query_topic_info", to_topics, topicName=part)
        ]
