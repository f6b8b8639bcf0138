"""Offsets of a cluster, without consuming anything: the first and last of all stores, and those of a time.

Brokers tell them over HTTP in one call each, where their web ports can be reached; else they are asked store by
store over the ordinary protocol. Callers need not know which.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from zoneinfo import ZoneInfo

from tubeclient.access import authority_of
from tubeclient.broker_webs import BrokerWebs
from tubeclient.errors import ConfigurationError, ConnectError, TubeError
from tubeclient.first_offsets import DATA_UNKNOWN, FirstOffsets
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.find_time import TimedLook, TimeTask
from tubeclient.flows.patience import Doubt
from tubeclient.flows.probe_store import probe_store
from tubeclient.identity import new_client_id
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreFiles, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings
from tubeclient.wire.message_time import MINUTE_MS

__all__ = ["OffsetLookup"]

_log = logging.getLogger(__name__)

_AT_ONCE = 8


class OffsetLookup(ProcessBound):
    """Looks up the bounds of stores, the positions of groups and the offsets of times; keeps its connections between
    calls.

    A broker that does not answer for now keeps the bounds it last gave; one that never answered is asked again for
    `retry_limit_ms`.
    """

    def __init__(self, settings: ClientSettings, reader_groups: Sequence[str]) -> None:
        super().__init__()
        self._settings = settings
        self._reader_groups = tuple(reader_groups)
        self._client_id = new_client_id(self._reader_groups[0], "probe")
        self._authority = authority_of(settings)
        self._pool = ConnectionPool(settings)
        self._workers = ThreadPoolExecutor(_AT_ONCE, "tubeclient-lookup")
        self._closing = threading.Event()
        self._known: dict[StoreKey, StoreBounds] = {}
        self._silent: set[int] = set()
        self._webs = BrokerWebs(settings)
        self._firsts = FirstOffsets(
            self._pool, self._reader_groups, partial(new_client_id, self._reader_groups[0], "probe"), self._authority
        )

    def bounds(self, view: ClusterView) -> dict[StoreKey, StoreBounds]:
        """Return the bounds of every store in `view`: they begin where messages do, behind index entries whose message
        has expired. Raises the last error of a broker that never gave any.
        """
        self.check_process()
        self._webs.learn(view)
        self._authority.visit_token = view.visit_token
        stores: dict[int, dict[StoreKey, Sequence[PartitionKey]]] = {}
        for store, partitions in view.stores().items():
            stores.setdefault(store.broker_id, {})[store] = partitions
        asked = [(view.brokers[broker_id], of_broker) for broker_id, of_broker in stores.items()]
        found: dict[StoreKey, StoreBounds] = {}
        for answer in self._workers.map(lambda arguments: self._bounds_of_broker(*arguments), asked):
            found.update(answer)
        self._known = found
        return found

    def group_positions(self, view: ClusterView, consumer_group: str) -> dict[PartitionKey, int]:
        """Return the positions that brokers keep for `consumer_group`, for the partitions of `view` where it has one.

        Only HTTP tells them without taking the partitions over; TubeError where a broker's web port cannot be reached.
        """
        self.check_process()
        return self._webs.group_positions(view, consumer_group)

    def offsets_at(
        self,
        view: ClusterView,
        timestamps_ms: Mapping[PartitionKey, int],
        *,
        time_zone: str = "UTC",
        bounds: Mapping[StoreKey, StoreBounds] | None = None,
    ) -> dict[PartitionKey, int | None]:
        """Return the offset of each partition from which its messages are of the timestamp's minute or later.

        Timestamps are milliseconds since 1970 and count to the minute, as the times that producers write on messages
        do; `time_zone` (an IANA name) is the zone of the producers' clocks. None where no message is of that minute or
        later. The search is within `bounds`, by default what the brokers hold now.

        Where a partition's times are not in order: the message just before the offset is older, the one just behind it
        is not; a later timestamp gives no smaller offset; and the same offset is found again as long as no message
        comes that is older than the timestamp.

        Fetches about as many packs of a partition as the number of its store's messages has binary digits, and more
        where long stretches of the store hold none of its messages. Raises NoMessageTime where a message that is looked
        at has no time, ConfigurationError for an unknown zone or partition, DeadlineExceeded after `retry_limit_ms`
        without progress, and the StatusError of a refusal.
        """
        self.check_process()
        unknown = sorted(timestamps_ms.keys() - set(view.partitions()))
        if unknown:
            raise ConfigurationError(f"the cluster does not have partition {unknown[0]}, whose offset is sought")
        try:
            zone = ZoneInfo(time_zone)
        except (ValueError, KeyError, OSError) as error:
            raise ConfigurationError(
                f"time_zone is {time_zone!r}; give a zone of the IANA data base, as UTC or Asia/Shanghai"
            ) from error
        held = self.bounds(view) if bounds is None else bounds
        self._authority.visit_token = view.visit_token
        tasks = [
            TimeTask(
                view.broker_of(key),
                key,
                held[key.store],
                timestamp_ms // MINUTE_MS,
                zone,
                self._reader_groups,
                partial(new_client_id, self._reader_groups[0], "times"),
                self._settings.retry_limit_ms,
                self._authority,
            )
            for key, timestamp_ms in sorted(timestamps_ms.items())
        ]
        found = self._workers.map(self._offset_at, tasks)
        return {task.partition: offset for task, offset in zip(tasks, found, strict=True)}

    def close(self) -> None:
        """End threads and connections."""
        if self.inherited:
            return
        self._closing.set()
        self._pool.close()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def _offset_at(self, task: TimeTask) -> int | None:
        runner = FlowRunner(self._pool)
        look = TimedLook(task, random.Random())
        try:
            return runner.run(look.run())
        finally:
            runner.run(look.release())

    def _bounds_of_broker(
        self, broker: BrokerInfo, stores: Mapping[StoreKey, Sequence[PartitionKey]]
    ) -> dict[StoreKey, StoreBounds]:
        deadline = time.monotonic() + self._settings.retry_limit_ms / 1000
        doubt = Doubt()
        attempt = 0
        while True:
            try:
                found = self._ask(broker, stores)
            except TubeError as error:
                known = {store: self._known[store] for store in stores if store in self._known}
                if len(known) == len(stores):
                    if broker.broker_id not in self._silent:
                        _log.warning("broker %s tells no offsets for now, its last ones are kept: %s", broker, error)
                        self._silent.add(broker.broker_id)
                    return known
                now = time.monotonic()
                if not error.retriable or now >= deadline or doubt.is_over(error, now * 1000):
                    raise
            else:
                if broker.broker_id in self._silent:
                    _log.info("broker %s tells its offsets again", broker)
                    self._silent.discard(broker.broker_id)
                return found
            if self._closing.wait(backoff_ms(attempt, random.random()) / 1000):
                raise ConnectError("the offset lookup was closed")
            attempt += 1

    def _ask(
        self, broker: BrokerInfo, stores: Mapping[StoreKey, Sequence[PartitionKey]]
    ) -> dict[StoreKey, StoreBounds]:
        self._webs.check_place(broker)
        if self._webs.of(broker) is not None:
            try:
                files = self._webs.files(broker, stores.keys())
            except TubeError as error:
                _log.debug("broker %s did not answer over HTTP, trying the protocol: %s", broker, error)
            else:
                return self._firsts.bounds(broker, stores, files)
        return self._firsts.bounds(
            broker, stores, {store: self._probe(broker, partitions) for store, partitions in stores.items()}
        )

    def _probe(self, broker: BrokerInfo, partitions: Sequence[PartitionKey]) -> StoreFiles:
        probe = probe_store(broker, partitions, self._reader_groups, self._client_id, self._authority)
        return StoreFiles(FlowRunner(self._pool).run(probe), DATA_UNKNOWN)
