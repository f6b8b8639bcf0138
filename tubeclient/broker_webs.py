"""The web ports of a cluster's brokers: where they are, and calls to all of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TypeVar

from tubeclient.admin.model import BrokerState
from tubeclient.admin.web import WEB_ADVICE, BrokerWeb, MasterWeb
from tubeclient.errors import BrokerFailed, ConnectError, TubeError
from tubeclient.keys import BrokerInfo, PartitionKey, StoreFiles, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.first_offsets import NEVER_WRITTEN, loaded_files
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

T = TypeVar("T")

_ASK_MASTERS_AGAIN_SECONDS = 60.0
_ASK_AFTER_FAILURE_SECONDS = 5.0
_AT_ONCE = 8


class BrokerWebs:
    """Gets the brokers' web ports from the masters' web port, and keeps them as long as brokers keep their addresses.
    It holds no connection.

    A broker's answer does not say which broker it is. So the masters' list must have the broker at the address that its
    layout shows. One thread at a time may use it, except for `of`, `check_place` and `files`.
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
            counts_seconds = inf if all(map(self.of, brokers)) else _ASK_MASTERS_AGAIN_SECONDS
            if self._failed:
                counts_seconds = _ASK_AFTER_FAILURE_SECONDS
            if brokers <= self._asked_about and time.monotonic() - self._asked_at < counts_seconds:
                return
            self._asked_about, self._asked_at = brokers, time.monotonic()
            self._failed, self._failure = False, None
            self._never_written.clear()
            try:
                self._states = {state.info.broker_id: state for state in self._masters.brokers()}
            except TubeError as error:
                _log.info("the brokers' web ports are unknown: %s", error)
                self._failure = error

    def of(self, broker: BrokerInfo) -> BrokerWeb | None:
        """The web calls of a broker. None while its web port is not known."""
        state = self._states.get(broker.broker_id)
        if state is None or state.web_port <= 0 or not state.is_at(broker):
            return None
        return BrokerWeb(broker.broker_id, state.web_address, self._settings.http_timeout_ms)

    def check_place(self, broker: BrokerInfo) -> None:
        """Raise ConnectError if the masters' list has the broker at another address by now. Another broker may be at
        this one.
        """
        state = self._states.get(broker.broker_id)
        if state is not None and not state.is_at(broker):
            raise ConnectError(
                f"broker {broker} has moved, the master lists it as {state.info}; waiting for the new layout"
            )

    def require(self, view: ClusterView, what_for: str) -> None:
        """Raise ConnectError, with the reason, if the web port of a broker in `view` cannot be found."""
        self.learn(view)
        for broker in view.brokers.values():
            self._required(broker, what_for)

    def files(self, broker: BrokerInfo, stores: Collection[StoreKey]) -> dict[StoreKey, StoreFiles]:
        """The files of these stores of one broker whose web port is known. TubeError while the broker starts."""
        web = self._required(broker, "reports its stores")
        try:
            return self._files(web, broker, stores)
        except TubeError:
            self._failed = True
            raise

    def group_positions(self, view: ClusterView, group: str) -> dict[PartitionKey, int]:
        """Return the positions that brokers keep for `group`, for the partitions of `view` where it has one.

        The first positions of a group come up to 5 s late. Only HTTP gives positions without taking partitions over, so
        it is a TubeError if a broker's web port cannot be reached.
        """
        positions, silent = self.answered_positions(view, group)
        for error in silent.values():
            raise error
        return positions

    def answered_positions(self, view: ClusterView, group: str) -> tuple[dict[PartitionKey, int], dict[int, TubeError]]:
        """As `group_positions`, of the brokers that answer; and why each of the others, by id, does not."""
        self.learn(view)
        topics = {layout.topic for layout in view.layouts}
        what_for = f"reports the position of group {group}"
        positions: dict[PartitionKey, int] = {}
        silent: dict[int, TubeError] = {}
        for broker_id in sorted({layout.broker_id for layout in view.layouts}):
            try:
                found = self._asked(view, view.brokers[broker_id], what_for, lambda web: web.positions(group, topics))
                positions |= {one.partition: one.committed for one in found if view.has(one.partition)}
            except TubeError as error:
                silent[broker_id] = error
        return positions, silent

    def set_group_positions(
        self, view: ClusterView, group: str, offsets: Mapping[PartitionKey, int], user: str
    ) -> None:
        """Set the positions of `group`. Brokers log `user` for it. The group's open fetches are dropped.

        Every partition must be in `view`. An offset before a store's first one becomes the first one. An offset after
        the last one is not set: the broker is starting, or has lost data. Every broker is tried. BrokerFailed names the
        first one that failed, which may have set some of its positions.
        """
        self.learn(view)
        of_brokers: dict[int, dict[PartitionKey, int]] = {}
        for key, offset in offsets.items():
            of_brokers.setdefault(key.broker_id, {})[key] = offset
        if not of_brokers:
            return
        what_for = f"takes the position of group {group}"

        def failure_of(broker_id: int) -> BrokerFailed | None:
            broker = view.brokers[broker_id]
            try:
                offsets = of_brokers[broker_id]
                self._asked(view, broker, what_for, lambda web: self._set_at(web, broker, group, offsets, user))
            except TubeError as error:
                failure = BrokerFailed(f"broker {broker} failed: {error}", broker=str(broker))
                failure.__cause__ = error
                return failure
            return None

        with ThreadPoolExecutor(min(_AT_ONCE, len(of_brokers)), "tubeclient-positions") as workers:
            failures = [failure for failure in workers.map(failure_of, sorted(of_brokers)) if failure is not None]
        if failures:
            raise failures[0]

    def _asked(self, view: ClusterView, broker: BrokerInfo, what_for: str, ask: Callable[[BrokerWeb], T]) -> T:
        """The result of `ask` for the broker; asks again if its web port has changed."""
        web = self._required(broker, what_for)
        try:
            return ask(web)
        except TubeError:
            self._failed = True
            self.learn(view)
            anew = self.of(broker)
            if anew is None or anew == web:
                raise
            return ask(anew)

    def _files(self, web: BrokerWeb, broker: BrokerInfo, stores: Collection[StoreKey]) -> dict[StoreKey, StoreFiles]:
        found = loaded_files(web.files, broker, stores, self._settings, self._never_written)
        self._never_written.difference_update(stores)
        self._never_written.update(store for store, files in found.items() if files is NEVER_WRITTEN)
        return found

    def _set_at(
        self, web: BrokerWeb, broker: BrokerInfo, group: str, offsets: Mapping[PartitionKey, int], user: str
    ) -> None:
        # Asked each time: a starting broker would clamp the positions to the ends of stores that it has not loaded yet,
        # and create such stores again.
        files = self._files(web, broker, {key.store for key in offsets})
        ends = {store: of_store.index_bounds.max_offset for store, of_store in files.items()}
        within = {key: offset for key, offset in offsets.items() if offset <= ends[key.store]}
        if within:
            web.set_positions(group, within, user)
        if len(within) < len(offsets):
            key = min(offsets.keys() - within.keys())
            raise TubeError(f"partition {key} ends at {ends[key.store]}, before the position {offsets[key]} to be set")

    def _required(self, broker: BrokerInfo, what_for: str) -> BrokerWeb:
        self.check_place(broker)
        web = self.of(broker)
        if web is None:
            reason = f": {self._failure}" if self._failure is not None else f"; {WEB_ADVICE}"
            raise ConnectError(f"broker {broker} {what_for} over HTTP only, but its web port is unknown{reason}")
        return web
