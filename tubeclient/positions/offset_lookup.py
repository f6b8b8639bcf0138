"""Offsets of a cluster, without consuming: the first and last of all stores, and those of a time.

If its web port can be reached, one HTTP call gives all stores of a broker. Else the broker is asked store by store over
the ordinary protocol. Callers need not know which.

One broker of several may be down for hours. `bounds` needs the answers of all. `look` takes the answers that come, and
does not wait for a broker that did not answer the last time.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime, tzinfo
from functools import partial
from typing import NamedTuple

from tubeclient.access import authority_of
from tubeclient.admin.broker_webs import BrokerWebs
from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    NotAvailable,
    TransportError,
    TubeError,
)
from tubeclient.flows.effects import Flow, backoff_ms
from tubeclient.flows.find_time import TimedLook
from tubeclient.flows.message_pack import BadMessages, check_bad_messages
from tubeclient.flows.stay import ReaderNames, probe_store
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
_FIRST_LOOK_MS = 5_000.0
"""How long a first look waits for the others once one broker has answered: about the time a broker takes to restart."""

_Stores = Mapping[StoreKey, Sequence[PartitionKey]]
"""Stores of one broker, with their partitions."""


class OffsetLook(NamedTuple):
    """The answers of a cluster's brokers at one look."""

    bounds: Mapping[StoreKey, StoreBounds]
    """The stores whose brokers answered."""
    silent: Mapping[int, TubeError]
    """By broker id, why the bounds of some of its stores are missing."""
    growth: Mapping[StoreKey, StoreGrowth]
    """How the same stores gained partitions, by all looks of this lookup."""


class FirstTime(NamedTuple):
    """The time of a partition's first message in a range."""

    time_ms: int | None
    """Milliseconds since 1970 at the beginning of the message's minute; None if there is no message, or it is
    unknown."""
    failure: TubeError | None = None
    """Why it is unknown: the broker does not answer, or the message has no time or is bad."""


class _Answer(NamedTuple):
    bounds: dict[StoreKey, StoreBounds]
    failure: TubeError | None
    """Why some stores are missing."""


class OffsetLookup(ProcessBound):
    """Looks up the bounds of stores, the positions of groups and the offsets of times. Keeps its connections between
    calls. A message that is damaged or cannot be parsed ends a search by time with a CorruptMessage, or with
    `bad_messages` "keep" counts as old as the next good one.
    """

    def __init__(
        self, settings: ClientSettings, reader_groups: Sequence[str], *, bad_messages: BadMessages = "fail"
    ) -> None:
        super().__init__()
        check_bad_messages(bad_messages)
        self._bad_messages = bad_messages
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
        self._silent: dict[int, TubeError] = {}
        """Brokers that gave no answer the last time, and why."""
        self._asked_aside: dict[int, Future[_Answer]] = {}
        """Queries of silent brokers that no caller waits for."""
        self._webs = BrokerWebs(settings)
        self._growth: dict[int, tuple[BrokerInfo, dict[StoreKey, StoreGrowth]]] = {}
        """By broker id, for one address: another broker may be at another address."""
        self._firsts = FirstOffsets(self._pool, self._names)

    def bounds(self, view: ClusterView) -> dict[StoreKey, StoreBounds]:
        """Return the bounds of every store in `view`. They begin at the first message, after index entries whose
        message has expired. Raises the last error of a broker that gives no answer for `retry_limit_ms`.
        """
        with self._open():
            limit_ms = self._settings.retry_limit_ms
            wait(self._asked_aside.values())  # no store may be queried twice at the same time
            found, failures = self._ask_all(view, self._stores_by_broker(view), limit_ms, limit_ms)
            for failure in failures.values():
                raise failure
            for broker_id in {store.broker_id for store in found}:
                self._silent.pop(broker_id, None)
                self._asked_aside.pop(broker_id, None)
            return found

    def look(self, view: ClusterView) -> OffsetLook:
        """Return the bounds of the stores in `view` whose brokers answer now.

        The first look waits up to `retry_limit_ms` for the first answer, and raises the last error if none comes. Later
        looks ask each broker once, and do not wait for those that were silent the last time. So a broker that is down
        makes no look slower. Raises an error that does not pass, as AuthenticationFailed, if the broker never answered.
        """
        with self._open():
            stores = self._stores_by_broker(view)
            for broker_id in self._silent.keys() - stores.keys():
                del self._silent[broker_id]
                self._asked_aside.pop(broker_id, None)
            waited_for = {
                broker_id: some for broker_id, some in stores.items() if not self._is_silent(view, broker_id, some)
            }
            first = not self._heard
            limit_ms = self._settings.retry_limit_ms if first else 0.0
            found, failures = self._ask_all(view, waited_for, limit_ms, min(limit_ms, _FIRST_LOOK_MS))
            for broker_id, failure in failures.items():
                lasting = not failure.retriable and not isinstance(failure, NotAvailable)
                if broker_id not in self._heard and (lasting or (first and not found)):
                    raise failure
            self._heard.update(store.broker_id for store in found)
            self._silent.update(failures)
            growth = {store: self._growth[store.broker_id][1][store] for store in found}
            return OffsetLook(found, dict(self._silent), growth)

    def group_positions(self, view: ClusterView, consumer_group: str) -> dict[PartitionKey, int]:
        """Return the brokers' positions of `consumer_group`, for the partitions of `view` that have one.

        Without HTTP a client would have to take the partitions over, so this raises TubeError if a broker's web port
        cannot be reached.
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

        Timestamps are milliseconds since 1970, or datetimes with a zone. They count to the minute, like the times that
        producers write on messages.
        `time_zone` (an IANA name) is the time zone of the producers' clocks. None if no message is of that minute or
        later. The search is within `bounds`, by default the brokers' current bounds.

        If a partition's times are not in order: the message just before the offset is older, the one just after it is
        not; a later timestamp gives no smaller offset; and the result stays the same as long as no message older than
        the timestamp arrives.

        Fetches about log2(number of the store's messages) packs per partition, and more if long parts of the store have
        none of the partition's messages.

        Raises NoMessageTime for a message without a time, ConfigurationError for a datetime without a zone and for an
        unknown time zone or partition, DeadlineExceeded after `retry_limit_ms` without progress, and the StatusError of
        a refusal.
        """
        with self._open():
            unknown = sorted(timestamps_ms.keys() - set(view.partitions()))
            if unknown:
                raise ConfigurationError(f"cannot look up partition {unknown[0]}: the cluster does not have it")
            zone = zone_named(time_zone)
            moments = {key: moment_ms(given, f"the time of {key}") for key, given in timestamps_ms.items()}
            held = self.bounds(view) if bounds is None else bounds
            self._authority.visit_token = view.visit_token

            def search(key: PartitionKey) -> int | None:
                minute = moments[key] // MINUTE_MS
                return self._looked(view, key, zone, lambda look: look.find(held[key.store], minute))

            keys = sorted(moments)
            return dict(zip(keys, self._workers.map(search, keys), strict=True))

    def first_times(
        self, view: ClusterView, ranges: Mapping[PartitionKey, StoreBounds], *, time_zone: str = "UTC"
    ) -> dict[PartitionKey, FirstTime]:
        """Return the time of each partition's first message between these offsets, by the times that producers write
        on messages. If there is none, it may be that of one behind them. `time_zone` is as for `offsets_at`.

        Fetches one pack per partition, and more if long parts of the store have none of the partition's messages.
        """
        with self._open():
            zone = zone_named(time_zone)
            self._authority.visit_token = view.visit_token

            def look(key: PartitionKey) -> FirstTime:
                try:
                    minute = self._looked(view, key, zone, lambda look: look.first_minute(ranges[key]))
                except TubeError as error:
                    return FirstTime(None, error)
                return FirstTime(None if minute is None else minute * MINUTE_MS)

            keys = sorted(ranges)
            return dict(zip(keys, self._workers.map(look, keys), strict=True))

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

    def _looked(
        self, view: ClusterView, key: PartitionKey, zone: tzinfo, work: Callable[[TimedLook], Flow[int | None]]
    ) -> int | None:
        runner = FlowRunner(self._pool)
        look = TimedLook(
            view.broker_of(key),
            key,
            self._names,
            random.Random(),
            zone=zone,
            retry_limit_ms=self._settings.retry_limit_ms,
            bad_messages=self._bad_messages,
        )
        try:
            return runner.run(work(look))
        finally:
            runner.run(look.release())

    def _stores_by_broker(self, view: ClusterView) -> dict[int, _Stores]:
        self._webs.learn(view)
        self._authority.visit_token = view.visit_token
        stores: dict[int, dict[StoreKey, Sequence[PartitionKey]]] = {}
        for store, partitions in view.stores().items():
            stores.setdefault(store.broker_id, {})[store] = partitions
        return dict(stores)

    def _is_silent(self, view: ClusterView, broker_id: int, stores: _Stores) -> bool:
        """Whether the broker still does not answer, as far as known without waiting."""
        if broker_id not in self._silent:
            return False
        under_way = self._asked_aside.get(broker_id)
        if under_way is not None and not under_way.done():
            return True
        failure = None if under_way is None else under_way.result().failure
        if under_way is None or failure is not None:
            self._silent[broker_id] = failure or self._silent[broker_id]
            self._asked_aside[broker_id] = self._silent_workers.submit(self._ask, view.brokers[broker_id], stores)
            return True
        del self._silent[broker_id], self._asked_aside[broker_id]
        return False

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
            answers = list(self._workers.map(lambda one: self._ask(view.brokers[one], stores[one]), left))
            for answer in answers:
                found.update(answer.bounds)
            failures = {one: failure for one, (_, failure) in zip(left, answers, strict=True) if failure is not None}
            left = list(failures)
            refused = any(not failure.retriable for failure in failures.values())
            if refused or (time.monotonic() - began) * 1000 >= (some_limit_ms if found else none_limit_ms):
                break
            if left and self._closing.wait(backoff_ms(attempt, random.random()) / 1000):
                raise ClientClosed(_CLOSED)
            attempt += 1
        return found, failures

    def _ask(self, broker: BrokerInfo, stores: _Stores) -> _Answer:
        files: dict[StoreKey, StoreFiles] = {}
        failure: TubeError | None = None
        try:
            files = self._files_over_http(broker, stores)
        except TubeError as error:
            failure, stores = error, {}
        for store in stores.keys() - files.keys():
            try:
                bounds = FlowRunner(self._pool).run(probe_store(broker, stores[store], self._names))
                files[store] = StoreFiles(bounds, DATA_UNKNOWN)
            except TubeError as error:
                failure = error
                if isinstance(error, TransportError):
                    break  # the others would wait for the same
        place, before = self._growth.get(broker.broker_id, (broker, {}))
        before = before if place == broker else {}
        known = {store: before.get(store, StoreGrowth()) for store in {*before, *files}}
        self._growth[broker.broker_id] = broker, {store: one.after(files.get(store)) for store, one in known.items()}
        try:
            return _Answer(self._firsts.bounds(broker, stores, files), failure)
        except TubeError as error:
            return _Answer({}, error)

    def _files_over_http(self, broker: BrokerInfo, stores: _Stores) -> dict[StoreKey, StoreFiles]:
        """{} if its web port is unknown, or does not answer. ConnectError if the broker has moved."""
        if self._webs.of(broker) is None:
            return {}
        try:
            return self._webs.files(broker, stores.keys())
        except TubeError as error:
            _log.debug("broker %s did not answer over HTTP, trying the protocol: %s", broker, error)
            return {}
