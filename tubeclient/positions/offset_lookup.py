"""Offsets of a cluster, without consuming: the first and last of all stores, and those of a time.

If its web port can be reached, one HTTP call gives all stores of a broker. Else the broker is asked store by store over
the ordinary protocol. Callers need not know which.

One broker of several may be down for hours. `bounds` needs the answers of all. `snapshot` takes the answers that come,
and does not wait for a broker that did not answer the last time.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import NamedTuple

from tubeclient.access import authority_of
from tubeclient.admin.broker_webs import BrokerWebs
from tubeclient.errors import ClientClosed, ConfigurationError, NotAvailable, TubeError
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.find_time import TimeProbe
from tubeclient.flows.read_session import ReaderNames, probe_store
from tubeclient.identity import new_client_id
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreFiles, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.names import checked_reader_groups, group_name
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.positions.stores import DATA_UNKNOWN, FirstOffsets, StoreGrowth
from tubeclient.settings import ClientSettings, checked_settings
from tubeclient.wire.message_time import MINUTE_MS, moment_ms, zone_named

_log = logging.getLogger(__name__)

_CLOSED = "this OffsetLookup is closed; make a new one"

_AT_ONCE = 8
_SILENT_AT_ONCE = 4
_FIRST_ANSWERS_MS = 5_000.0
"""How long a first look waits for the others once one broker has answered: about the time a broker takes to restart."""

_Stores = Mapping[StoreKey, Sequence[PartitionKey]]
"""Stores of one broker, with their partitions."""

_Answer = dict[StoreKey, StoreBounds] | TubeError


class OffsetSnapshot(NamedTuple):
    """The answers of a cluster's brokers at one look."""

    bounds: Mapping[StoreKey, StoreBounds]
    """The stores whose brokers answered."""
    silent: Mapping[int, TubeError]
    """By broker id, why the bounds of its stores are missing."""
    growth: Mapping[StoreKey, StoreGrowth]
    """How the same stores gained partitions, by all looks of this lookup."""


class OffsetLookup(ProcessBound):
    """Looks up the bounds of stores, the positions of groups and the offsets of times.

    It keeps its connections between calls. Close it, or use it as a context manager.
    """

    def __init__(self, settings: ClientSettings, reader_groups: Sequence[str]) -> None:
        super().__init__()
        self._settings = checked_settings(settings)
        self._authority = authority_of(settings)
        groups = checked_reader_groups(reader_groups)
        self._names = ReaderNames(groups, partial(new_client_id, groups[0], "probe"), self._authority)
        self._pool = ConnectionPool(settings)
        self._workers = ThreadPoolExecutor(_AT_ONCE, "tubeclient-lookup")
        self._silent_workers = ThreadPoolExecutor(_SILENT_AT_ONCE, "tubeclient-lookup-silent")
        self._closing = threading.Event()
        self._heard: set[int] = set()
        """Brokers that have answered once."""
        self._silent: dict[int, tuple[TubeError, Future[_Answer]]] = {}
        """Why brokers gave no answer the last time, and a query of them that no caller waits for."""
        self._webs = BrokerWebs(settings)
        self._firsts = FirstOffsets(self._pool, self._names)
        self._growth: dict[int, tuple[BrokerInfo, dict[StoreKey, StoreGrowth]]] = {}
        """By broker id, of those that answered the last time, for one address: another broker may be at another one."""

    def bounds(self, view: ClusterView) -> dict[StoreKey, StoreBounds]:
        """Return the bounds of every store in `view`. They begin at the first message that has not expired.

        Index entries whose message has expired are left out.

        Raises:
            TubeError: A broker gave no answer for `retry_limit_ms`. This is its last error.
        """
        with self._open():
            limit_ms = self._settings.retry_limit_ms
            wait([query for _, query in self._silent.values()])  # no store may be queried twice at the same time
            self._silent.clear()
            found, failures = self._ask_all(view, self._stores_by_broker(view), limit_ms, limit_ms)
            for failure in failures.values():
                raise failure
            return found

    def snapshot(self, view: ClusterView) -> OffsetSnapshot:
        """Return the bounds of the stores in `view` whose brokers answer now.

        The first look waits up to `retry_limit_ms` for the first answer. Later looks ask each broker once and do not
        wait for those that were silent the last time. So a broker that is down makes no look slower.

        Raises:
            TubeError: No broker answered the first look; this is the last error. Or a broker that never answered has an
                error that does not pass, such as AuthenticationFailed.
        """
        with self._open():
            stores = self._stores_by_broker(view)
            for broker_id, (_, query) in list(self._silent.items()):
                if broker_id not in stores:
                    del self._silent[broker_id]
                elif query.done():
                    answer = query.result()
                    del self._silent[broker_id]  # asked anew: the answer may be old
                    if isinstance(answer, TubeError):
                        self._ask_aside(view, broker_id, stores[broker_id], answer)
            waited_for = {broker_id: some for broker_id, some in stores.items() if broker_id not in self._silent}
            first = not self._heard
            limit_ms = self._settings.retry_limit_ms if first else 0.0
            found, failures = self._ask_all(view, waited_for, limit_ms, min(limit_ms, _FIRST_ANSWERS_MS))
            for broker_id, failure in failures.items():
                lasting = not failure.retriable and not isinstance(failure, NotAvailable)
                if broker_id not in self._heard and (lasting or (first and not found)):
                    raise failure
                self._ask_aside(view, broker_id, stores[broker_id], failure)
            self._heard.update(store.broker_id for store in found)
            growth = {store: self._growth[store.broker_id][1][store] for store in found}
            return OffsetSnapshot(found, {broker_id: why for broker_id, (why, _) in self._silent.items()}, growth)

    def group_positions(self, view: ClusterView, consumer_group: str) -> dict[PartitionKey, int]:
        """Return the brokers' positions of `consumer_group`, for the partitions of `view` that have one.

        Only HTTP gives them without taking the partitions over.

        Raises:
            TubeError: A broker does not answer.
        """
        with self._open():
            positions, silent = self._webs.answered_positions(view, group_name(consumer_group))
            for failure in silent.values():
                raise failure
            return positions

    def offsets_at(
        self,
        view: ClusterView,
        timestamps_ms: Mapping[PartitionKey, int | datetime],
        *,
        time_zone: str = "UTC",
        bounds: Mapping[StoreKey, StoreBounds] | None = None,
    ) -> dict[PartitionKey, int | None]:
        """Return the offset of each partition from which its messages are of the timestamp's minute or later.

        If a partition's times are not in order, the message just before the offset is older, and the one just after it
        is not. A later timestamp gives no smaller offset. The result stays the same while no message older than the
        timestamp arrives.

        Fetches about log2(number of the store's messages) packs per partition, and more if long parts of the store have
        none of the partition's messages.

        Args:
            timestamps_ms: Milliseconds since 1970, or datetimes with a zone. They count to the minute, like the times
                that producers write on messages.
            time_zone: The time zone of the producers' clocks, an IANA name.
            bounds: Where to search, by default the brokers' current bounds.

        Returns:
            Index offsets. None if no message is of that minute or later.

        Raises:
            NoMessageTime: A message has no time.
            CorruptMessage: A message is damaged.
            ConfigurationError: A datetime has no zone, or the time zone or a partition is unknown.
            DeadlineExceeded: There was no progress for `retry_limit_ms`.
            StatusError: A broker refuses.
        """
        with self._open():
            unknown = sorted(timestamps_ms.keys() - set(view.partitions()))
            if unknown:
                raise ConfigurationError(f"cannot look up partition {unknown[0]}: the cluster does not have it")
            zone = zone_named(time_zone)
            moments = {key: moment_ms(given, f"the time of {key}") for key, given in timestamps_ms.items()}
            limits = self.bounds(view) if bounds is None else bounds
            self._authority.visit_token = view.visit_token

            def search(key: PartitionKey) -> int | None:
                limit_ms, runner = self._settings.retry_limit_ms, FlowRunner(self._pool)
                broker, rng = view.broker_of(key), random.Random()
                time_probe = TimeProbe(broker, key, self._names, rng, zone=zone, retry_limit_ms=limit_ms)
                try:
                    return runner.run(time_probe.find(limits[key.store], moments[key] // MINUTE_MS))
                finally:
                    runner.run(time_probe.release())

            keys = sorted(moments)
            return dict(zip(keys, self._workers.map(search, keys), strict=True))

    def close(self) -> None:
        """End threads and connections. From then on all methods raise ClientClosed."""
        if self.inherited:
            return
        self._closing.set()
        self._pool.close()
        for workers in (self._workers, self._silent_workers):
            workers.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> OffsetLookup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _open(self) -> Iterator[None]:
        """A block of a call, which another thread's `close` ends with ClientClosed."""
        self.check_process()
        if self._closing.is_set():
            raise ClientClosed(_CLOSED)
        try:
            yield
        except (RuntimeError, CancelledError) as error:  # its threads take no more work
            if not self._closing.is_set():
                raise
            raise ClientClosed(_CLOSED) from error

    def _stores_by_broker(self, view: ClusterView) -> dict[int, _Stores]:
        self._webs.learn(view)
        self._authority.visit_token = view.visit_token
        stores: dict[int, dict[StoreKey, Sequence[PartitionKey]]] = {}
        for store, partitions in view.stores().items():
            stores.setdefault(store.broker_id, {})[store] = partitions
        return dict(stores)

    def _ask_aside(self, view: ClusterView, broker_id: int, stores: _Stores, why: TubeError) -> None:
        query = self._silent_workers.submit(self._ask, view.brokers[broker_id], stores)
        self._silent[broker_id] = why, query

    def _ask_all(
        self, view: ClusterView, stores: Mapping[int, _Stores], none_limit_ms: float, some_limit_ms: float
    ) -> tuple[dict[StoreKey, StoreBounds], dict[int, TubeError]]:
        """The brokers' answers, and why some are missing. Those are asked again until `none_limit_ms` is over, or
        `some_limit_ms` once any broker has answered."""
        began = time.monotonic()
        found: dict[StoreKey, StoreBounds] = {}
        failures: dict[int, TubeError] = {}
        left, attempt = list(stores), 0
        while left:
            answers = list(
                self._workers.map(lambda broker_id: self._ask(view.brokers[broker_id], stores[broker_id]), left)
            )
            failures = {}
            for broker_id, answer in zip(left, answers, strict=True):
                if isinstance(answer, TubeError):
                    failures[broker_id] = answer
                else:
                    found |= answer
            left = list(failures)
            refused = any(not failure.retriable for failure in failures.values())
            if refused or (time.monotonic() - began) * 1000 >= (some_limit_ms if found else none_limit_ms):
                break
            if left and self._closing.wait(backoff_ms(attempt, random.random()) / 1000):
                raise ClientClosed(_CLOSED)
            attempt += 1
        return found, failures

    def _ask(self, broker: BrokerInfo, stores: _Stores) -> _Answer:
        place, before = self._growth.pop(broker.broker_id, (broker, {}))
        before = before if place == broker else {}
        try:
            files = self._files(broker, stores)
            bounds = self._firsts.bounds(broker, stores, files)
        except TubeError as error:
            return error
        growth = {store: before.get(store, StoreGrowth()).after(of_store) for store, of_store in files.items()}
        self._growth[broker.broker_id] = broker, growth
        return bounds

    def _files(self, broker: BrokerInfo, stores: _Stores) -> dict[StoreKey, StoreFiles]:
        if self._webs.of(broker) is not None:
            try:
                return self._webs.files(broker, stores.keys())
            except TubeError as error:
                _log.debug("broker %s did not answer over HTTP, trying the protocol: %s", broker, error)
        probes = {store: probe_store(broker, partitions, self._names) for store, partitions in stores.items()}
        return {store: StoreFiles(FlowRunner(self._pool).run(probe), DATA_UNKNOWN) for store, probe in probes.items()}
