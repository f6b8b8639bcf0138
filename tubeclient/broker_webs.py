"""The web ports of a cluster's brokers: where they are, and what is asked of all brokers there, or set at them."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from tubeclient.admin.broker import BrokerWeb
from tubeclient.admin.master import MasterWeb
from tubeclient.errors import BrokerFailed, ConnectError, TubeError
from tubeclient.first_offsets import NEVER_WRITTEN
from tubeclient.keys import BrokerInfo, PartitionKey, StoreFiles, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.net.pool import ConnectionPool
from tubeclient.settings import ClientSettings

__all__ = ["BrokerWebs"]

_log = logging.getLogger(__name__)

_ASK_MASTERS_AGAIN_SECONDS = 60.0
_AT_ONCE = 8


class BrokerWebs:
    """Learns the brokers' web ports from the masters' one, and keeps them. It holds no connection.

    One thread at a time may use it, except for `of` and `files`.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._masters = MasterWeb(settings)
        self._webs: dict[int, BrokerWeb] = {}
        self._asked_at: float | None = None
        self._failure: TubeError | None = None
        self._never_written: set[StoreKey] = set()

    def learn(self, view: ClusterView) -> None:
        """Ask the masters where the web ports of the brokers in `view` are; anew each minute while one is missing."""
        now = time.monotonic()
        if view.brokers.keys() <= self._webs.keys():
            return
        if self._asked_at is not None and now - self._asked_at < _ASK_MASTERS_AGAIN_SECONDS:
            return
        self._asked_at, self._failure = now, None
        try:
            states = self._masters.brokers()
        except TubeError as error:
            _log.info("the brokers' web ports are not known: %s", error)
            self._failure = error
            return
        for state in states:
            broker = view.brokers.get(state.info.broker_id)
            if broker is not None and state.web_port > 0:
                address = f"{broker.host}:{state.web_port}"
                self._webs[broker.broker_id] = BrokerWeb(broker.broker_id, address, self._settings.http_timeout_ms)

    def of(self, broker: BrokerInfo) -> BrokerWeb | None:
        """The web calls of a broker; None while its web port is not known."""
        return self._webs.get(broker.broker_id)

    def require(self, view: ClusterView, what_for: str) -> None:
        """Raise ConnectError, with the reason, where the web port of a broker in `view` cannot be learnt."""
        self.learn(view)
        for broker in view.brokers.values():
            self._required(broker, what_for)

    def files(self, broker: BrokerInfo, stores: Collection[StoreKey]) -> dict[StoreKey, StoreFiles]:
        """The files of these stores of one broker, whose web port is known.

        The broker's answer leaves out stores that were never written to, and all stores while it is starting: its web
        port is there before they are. The port for clients opens behind them.
        """
        web = self._webs[broker.broker_id]
        topics = {store.topic for store in stores}
        found = web.files(topics)
        if any(store not in found and store not in self._never_written for store in stores):
            with closing(ConnectionPool(self._settings)) as fresh:
                fresh.get(broker.address)
            found = web.files(topics)
        self._never_written.difference_update(found)
        self._never_written.update(store for store in stores if store not in found)
        return {store: found.get(store, NEVER_WRITTEN) for store in stores}

    def group_positions(self, view: ClusterView, group: str) -> dict[PartitionKey, int]:
        """Return the positions that brokers keep for `group`, for the partitions of `view` where it has one.

        A group's first ones are told up to 5 s late. Only HTTP tells them without taking the partitions over:
        TubeError where a broker's web port cannot be reached.
        """
        self.learn(view)
        what_for = f"tells the position of group {group}"
        brokers = {layout.broker_id for layout in view.layouts}
        topics = {layout.topic for layout in view.layouts}
        positions: dict[PartitionKey, int] = {}
        for broker_id in sorted(brokers):
            for position in self._required(view.brokers[broker_id], what_for).positions(group, topics):
                if view.has(position.partition):
                    positions[position.partition] = position.committed
        return positions

    def set_group_positions(
        self, view: ClusterView, group: str, offsets: Mapping[PartitionKey, int], user: str
    ) -> None:
        """Set the positions of `group`; brokers note down `user` for it. What the group has in flight is dropped.

        Every partition has to be in `view`. An offset before a store's first one becomes that. One behind the last is
        not set: the broker is starting, or has lost data. Every broker is tried; BrokerFailed for the first that
        failed, which may have set a part.
        """
        self.learn(view)
        of_brokers: dict[int, dict[PartitionKey, int]] = {}
        for key, offset in offsets.items():
            of_brokers.setdefault(key.broker_id, {})[key] = offset
        if not of_brokers:
            return

        def failure_of(broker_id: int) -> BrokerFailed | None:
            broker = view.brokers[broker_id]
            try:
                self._set_at(broker, group, of_brokers[broker_id], user)
            except TubeError as error:
                failure = BrokerFailed(f"broker {broker} failed: {error}", broker=str(broker))
                failure.__cause__ = error
                return failure
            return None

        with ThreadPoolExecutor(min(_AT_ONCE, len(of_brokers)), "tubeclient-positions") as workers:
            failures = [failure for failure in workers.map(failure_of, sorted(of_brokers)) if failure is not None]
        if failures:
            raise failures[0]

    def _set_at(self, broker: BrokerInfo, group: str, offsets: Mapping[PartitionKey, int], user: str) -> None:
        web = self._required(broker, f"takes the position of group {group}")
        # Asked anew each time: a broker that is starting would lower the positions to the ends of stores it has not
        # loaded yet, and begin such stores anew.
        files = self.files(broker, {key.store for key in offsets})
        ends = {store: of_store.index_bounds.max_offset for store, of_store in files.items()}
        within = {key: offset for key, offset in offsets.items() if offset <= ends[key.store]}
        if within:
            web.set_positions(group, within, user)
        if len(within) < len(offsets):
            key = min(offsets.keys() - within.keys())
            raise TubeError(f"partition {key} ends at {ends[key.store]}, before the position {offsets[key]} to be set")

    def _required(self, broker: BrokerInfo, what_for: str) -> BrokerWeb:
        web = self._webs.get(broker.broker_id)
        if web is None:
            reason = f" ({self._failure})" if self._failure is not None else ""
            raise ConnectError(
                f"broker {broker} {what_for} over HTTP only, and its web port is not known{reason}; check masterWebPort"
            )
        return web
