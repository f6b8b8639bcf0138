"""Asks masters and brokers over HTTP: brokers, layouts, ends of stores, clients of groups. Changes nothing there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tubeclient.admin import Admin, BrokerState, RunStatus
from tubeclient.admin.broker import BrokerWeb
from tubeclient.errors import TubeError
from tubeclient.keys import StoreBounds, StoreKey
from tubeclient.settings import ClientSettings
from tubeclient.web_port import own_web
from tubeclient_cli.dashboard.facts import BrokerFacts, ClusterFacts

__all__ = ["ClusterLook"]

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 8

_Answer = tuple[BrokerFacts, dict[StoreKey, StoreBounds]]


class ClusterLook:
    """One look is one call: a master is asked for brokers, topics and groups, then each broker for its stores.

    A broker that does not answer is in the answer as such. `groups` limits the groups whose clients are looked up; None
    for all.
    """

    def __init__(self, settings: ClientSettings, groups: Callable[[], Collection[str] | None]) -> None:
        self._settings = settings
        self._admin = Admin(settings)
        self._groups = groups

    def __call__(self) -> ClusterFacts:
        """Raises TubeError if no master answers, ConfigurationError for a web port of another cluster."""
        own_web(self._settings)
        brokers = self._admin.brokers()
        topics = self._admin.topics()
        wanted = self._groups()
        online = [group.name for group in self._admin.groups() if wanted is None or group.name in wanted]
        members = {name: self._admin.group(name).members for name in online}
        with ThreadPoolExecutor(_AT_ONCE, "tubeclient-dashboard-broker") as workers:
            answers = list(workers.map(self._ask, brokers))
        ends: dict[StoreKey, StoreBounds] = {}
        for _, bounds in answers:
            ends.update(bounds)
        layouts = tuple(on.layout for topic in topics for on in topic.on_brokers)
        return ClusterFacts(tuple(facts for facts, _ in answers), layouts, ends, members)

    def _ask(self, broker: BrokerState) -> _Answer:
        if not broker.is_in_service:
            return BrokerFacts(broker, None, None, 0), {}
        began = time.monotonic()
        web = BrokerWeb(broker.info.broker_id, broker.web_address, self._settings.http_timeout_ms)
        try:
            files = web.files()
        except TubeError as error:
            gone = "" if broker.run_status is RunStatus.RUNNING else "; the master does not see it run either"
            return BrokerFacts(broker, f"{error}{gone}", None, 0), {}
        took_ms = round((time.monotonic() - began) * 1000)
        bounds = {store: found.index_bounds for store, found in files.items()}
        return BrokerFacts(broker, None, took_ms, len(bounds)), bounds
