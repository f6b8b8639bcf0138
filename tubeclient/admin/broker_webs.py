"""The web calls of a cluster's masters, of which the active one answers, and of its brokers, which need no token; where
the brokers' web ports are, and whether they are this cluster's."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeVar

from tubeclient.access import masters_of
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
from tubeclient.errors import (
    BrokerFailed,
    ConfigurationError,
    ConnectError,
    ProtocolError,
    StandbyMaster,
    TransportError,
    TubeError,
)
from tubeclient.flows.produce import ProducerSession
from tubeclient.identity import host_name, new_client_id
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreFiles, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.names import topic_names
from tubeclient.net.http import query_broker, query_master
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

T = TypeVar("T")

_WEB_ADVICE: Final = "check master_servers and master_web_port"

_MAX_NAMES: Final = 1_000
"""The most names or partition keys in one call. The servers' Jetty takes forms of up to 200 000 bytes, and names have
up to 64 characters."""

_ASK_MASTERS_AGAIN_SECONDS = 60.0
_ASK_AFTER_FAILURE_SECONDS = 5.0
_AT_ONCE = 8

_NEVER_WRITTEN = StoreFiles(StoreBounds(0, 0), 0)
"""The files of a store that does not exist yet."""


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
        return [position for position in found if not topics or position.partition.topic in topics]

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
            f"no master answered at its web port: {'; '.join(map(str, failures))}; {_WEB_ADVICE}",
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


def named_brokers(settings: ClientSettings) -> list[BrokerInfo]:
    """The brokers that the masters name by TubeMQ's protocol, without any topic or group. TubeError if none answers, or
    if they refuse the user. Registers a producer for a moment."""
    session = ProducerSession(masters_of(settings), new_client_id("producer", "look"), host_name())
    with closing(ConnectionPool(settings)) as pool:
        runner = FlowRunner(pool)
        runner.run(session.register())
        with suppress(TubeError):  # the master's lease ends
            runner.run(session.close())
    return list(session.brokers.values())


def own_web(settings: ClientSettings) -> ClientSettings:
    """Return the settings, if their web port lists a broker that the masters name too. Whoever believes what a web port
    says asks this before. ConfigurationError if it is another cluster's, TubeError if it does not answer. If no master
    answers, it is believed.
    """
    states = MasterWeb(settings).brokers()
    try:
        _check_own(settings, states, named_brokers(settings))
    except TubeError as error:
        if isinstance(error, ConfigurationError):
            raise
        _log.info("no master says whether the web port is its own: %s", error)
    return settings


def _check_own(settings: ClientSettings, states: Collection[BrokerState], named: Collection[BrokerInfo]) -> None:
    """ConfigurationError if the list of a web port and that of the masters share no address: it is another cluster's.
    Brokers that swapped their addresses are not."""
    listed = {(state.info.host, port) for state in states for port in (state.info.port, state.tls_port)}
    if listed and named and listed.isdisjoint(broker[1:] for broker in named):
        theirs, ours = min(state.info.address for state in states), min(broker.address for broker in named)
        raise ConfigurationError(
            f"web port {settings.master_web_port} lists {theirs}, but the masters list {ours}: the port belongs to "
            "another cluster. Set master_web_port to the web port of this cluster's masters",
            condition="OTHER_WEB_PORT",
        )


class BrokerWebs:
    """Gets the brokers' web ports from the masters' web port, and keeps them as long as brokers keep their addresses.
    It holds no connection.

    A broker's answer does not say which broker it is. So the masters' list must have the broker at the address that its
    layout shows. One thread at a time may use it, except for `of` and `files`.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._masters = MasterWeb(settings)
        self._lock = threading.Lock()
        self._states: dict[int, BrokerState] = {}
        """The masters' last list, by broker id."""
        self._asked_about: frozenset[BrokerInfo] = frozenset()
        self._asked_at = 0.0
        self._failed = False
        """Whether a web port failed since the masters were asked."""
        self._failure: TubeError | None = None
        self._never_written: set[StoreKey] = set()

    def learn(self, view: ClusterView) -> None:
        """Ask the masters where the web ports of the brokers in `view` are. That is done for a broker or an address
        that is new, some seconds after one failed, and each minute while one is missing.
        """
        with self._lock:
            brokers = frozenset(view.brokers.values())
            known = all(broker.broker_id in self._states for broker in brokers)
            counts_seconds = inf if known else _ASK_MASTERS_AGAIN_SECONDS
            if self._failed:
                counts_seconds = _ASK_AFTER_FAILURE_SECONDS
            if brokers <= self._asked_about and time.monotonic() - self._asked_at < counts_seconds:
                return
            self._asked_about, self._asked_at = brokers, time.monotonic()
            self._failed, self._failure = False, None
            self._never_written.clear()
            try:
                states = self._masters.brokers()
                _check_own(self._settings, states, brokers)
                self._states = {state.info.broker_id: state for state in states}
            except TubeError as error:
                _log.info("the brokers' web ports are unknown: %s", error)
                self._failure = error

    def of(self, broker: BrokerInfo) -> BrokerWeb | None:
        """The web calls of a broker. None while its web port is not known. ConnectError if the masters' list has the
        broker at another address by now: another broker may be at this one."""
        state = self._states.get(broker.broker_id)
        if state is None or not state.web_port:
            return None
        if not state.is_at(broker):
            self._failed = True
            raise ConnectError(
                f"broker {broker} has moved, the master lists it as {state.info}; waiting for the new layout"
            )
        return BrokerWeb(broker.broker_id, state.web_address, self._settings.http_timeout_ms)

    def require(self, view: ClusterView, what_for: str) -> None:
        """Raise ConnectError, with the reason, if the web port of a broker in `view` cannot be found."""
        self.learn(view)
        for broker in view.brokers.values():
            self._required(broker, what_for)

    def files(self, broker: BrokerInfo, stores: Collection[StoreKey]) -> dict[StoreKey, StoreFiles]:
        """The files of these stores of one broker. TubeError while the broker starts.

        The broker's answer lacks stores that were never written to, and all stores while it is starting: its web port
        opens before the stores are loaded. The port for clients opens after that. So if stores are missing that are not
        known as never written, this checks that the client port accepts a connection.
        """
        if not stores:
            return {}
        web, topics = self._required(broker, "reports its stores"), {store.topic for store in stores}
        try:
            found = web.files(topics)
            if any(store not in found and store not in self._never_written for store in stores):
                with closing(ConnectionPool(self._settings)) as fresh:
                    fresh.get(broker.address)
                found = web.files(topics)
        except TubeError:
            self._failed = True
            raise
        self._never_written.difference_update(found)
        self._never_written.update(store for store in stores if store not in found)
        return {store: found.get(store, _NEVER_WRITTEN) for store in stores}

    def each(
        self, brokers: Iterable[BrokerInfo], what_for: str, ask: Callable[[BrokerWeb, BrokerInfo], T]
    ) -> tuple[dict[int, T], dict[int, TubeError]]:
        """What `ask` gives for each broker, and the errors of those for which it fails, by broker id."""

        def asked(broker: BrokerInfo) -> T | TubeError:
            try:
                return ask(self._required(broker, what_for), broker)
            except TubeError as error:
                self._failed = True
                return error

        wanted = sorted(brokers)
        with ThreadPoolExecutor(_AT_ONCE, "tubeclient-webs") as workers:
            found = dict(zip((broker.broker_id for broker in wanted), workers.map(asked, wanted), strict=True))
        failures = {broker_id: answer for broker_id, answer in found.items() if isinstance(answer, TubeError)}
        return {broker_id: answer for broker_id, answer in found.items() if not isinstance(answer, TubeError)}, failures

    def answered_positions(self, view: ClusterView, group: str) -> tuple[dict[PartitionKey, int], dict[int, TubeError]]:
        """The positions that brokers keep for `group`, for the partitions of `view` where it has one; and why brokers,
        by id, do not answer. The first positions of a group come up to 5 s late."""
        self.learn(view)
        topics = {layout.topic for layout in view.layouts}
        brokers = {view.brokers[layout.broker_id] for layout in view.layouts}
        found, silent = self.each(
            brokers, f"reports the position of group {group}", lambda web, _: web.positions(group, topics)
        )
        offsets = (position for of_broker in found.values() for position in of_broker)
        return {position.partition: position.committed for position in offsets if view.has(position.partition)}, silent

    def set_group_positions(
        self, view: ClusterView, group: str, offsets: Mapping[PartitionKey, int], user: str
    ) -> None:
        """Set the positions of `group`. Brokers log `user` for it. The group's open fetches are dropped.

        Every partition must be in `view`. An offset before a store's first one becomes the first one. An offset after
        the last one is not set: the broker is starting, or has lost data. Every broker is tried. BrokerFailed names the
        first one that failed, which may have set some of its positions.
        """
        self.learn(view)

        def set_at(web: BrokerWeb, broker: BrokerInfo) -> None:
            wanted = {key: offset for key, offset in offsets.items() if key.broker_id == broker.broker_id}
            # Asked each time: a starting broker would clamp the positions to the ends of stores that it has not loaded
            # yet, and create such stores again.
            files = self.files(broker, {key.store for key in wanted})
            ends = {store: of_store.index_bounds.max_offset for store, of_store in files.items()}
            within = {key: offset for key, offset in wanted.items() if offset <= ends[key.store]}
            if within:
                web.set_positions(group, within, user)
            if len(within) < len(wanted):
                key = min(wanted.keys() - within.keys())
                raise TubeError(
                    f"partition {key} ends at {ends[key.store]}, before the position {wanted[key]} that you want to set"
                )

        brokers = {view.brokers[key.broker_id] for key in offsets}
        _, failures = self.each(brokers, f"takes the position of group {group}", set_at)
        raise_first(view.brokers, failures)

    def _required(self, broker: BrokerInfo, what_for: str) -> BrokerWeb:
        web = self.of(broker)
        if web is None:
            reason = f": {self._failure}" if self._failure is not None else f"; {_WEB_ADVICE}"
            raise ConnectError(f"broker {broker} {what_for} over HTTP only, but its web port is unknown{reason}")
        return web


def raise_first(brokers: Mapping[int, BrokerInfo], failures: Mapping[int, TubeError]) -> None:
    """Raise the first of these failures as one that names its broker."""
    for broker_id, error in sorted(failures.items()):
        raise BrokerFailed(f"broker {brokers[broker_id]} failed: {error}", broker=str(brokers[broker_id])) from error
