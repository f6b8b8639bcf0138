"""Exact ranges, read on the calling thread while a second thread keeps the partition's lease."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator

from tubeclient.access import authority_of
from tubeclient.errors import TubeError
from tubeclient.flows.effects import call, checked
from tubeclient.flows.read_range import LostRange, Pack, RangeRead, RangeTask
from tubeclient.flows.reader import LEASE_BEAT_MS
from tubeclient.identity import new_client_id
from tubeclient.keys import BrokerInfo, OffsetRange
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import shared_pool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings
from tubeclient.wire.methods import Method

__all__ = ["LostRange", "Pack", "RangeReader"]

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 15.0


class RangeReader(ProcessBound):
    """Reads ranges, one after the other, each under the first of `reader_groups` in which its partition is free. So
    many readers have one partition at once; others wait for their turn, for ten minutes at most.

    The same range gives the same messages in the same order, whatever arrives meanwhile and however often it is
    read. With `fail_on_data_loss` false, what the broker no longer holds is passed over and listed in `losses`;
    else it is a DataLoss. `visit_token` is wanted by brokers that check it: the master's, as `GroupMembership` and
    `ClusterView` give it, up to some minutes old. One reader is used by one thread. Close it, or use it as a context
    manager.

    >>> with RangeReader(settings, reader_groups_of("clicks_etl")) as reader:  # doctest: +SKIP
    ...     for pack in reader.read(broker, OffsetRange(PartitionKey(1, "clicks", 0), 0, 2800)):
    ...         print(len(pack))
    """

    def __init__(
        self,
        settings: ClientSettings,
        reader_groups: tuple[str, ...],
        client_name: str = "range",
        *,
        fail_on_data_loss: bool = True,
        visit_token: int | None = None,
    ) -> None:
        super().__init__()
        self.losses: list[LostRange] = []
        self._settings = settings
        self._reader_groups = reader_groups
        self._client_id = new_client_id(reader_groups[0] if reader_groups else "", client_name)
        self._fail_on_data_loss = fail_on_data_loss
        self._pool = shared_pool(settings)
        self._runner = FlowRunner(self._pool)
        self._authority = authority_of(settings, visit_token)
        self._keeper = _LeaseKeeper(settings, self._client_id)

    def read(
        self, broker: BrokerInfo, offset_range: OffsetRange, filters: frozenset[str] = frozenset()
    ) -> Iterator[Pack]:
        """Yield the range's packs, in order and without gaps. Raises DataLoss, DeadlineExceeded or the StatusError
        of a refusal.

        With `filters`, brokers compare tags by a 32-bit hash only: messages of other tags with the same hash are
        among the result.
        """
        self.check_process()
        task = RangeTask(
            broker,
            offset_range,
            self._reader_groups,
            self._client_id,
            filters,
            self._fail_on_data_loss,
            self._settings.retry_limit_ms,
            self._authority,
        )
        reading = RangeRead(task, random.Random())
        steps = self._runner.iterate(reading.run())
        self._keeper.keep(reading)
        try:
            for step in steps:
                if isinstance(step, LostRange):
                    self.losses.append(step)
                    _log.warning("lost and passed over: %s", step)
                else:
                    yield step
        finally:
            self._keeper.keep(None)
            steps.close()
            self._runner.run(reading.release())

    def close(self) -> None:
        """End the lease thread. Connections stay in the process's pool for the next reader."""
        if not self.inherited:
            self._keeper.close()

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LeaseKeeper:
    """Beats for the partition being read, however slowly its packs are asked for; the thread starts with the first
    beat due.
    """

    def __init__(self, settings: ClientSettings, client_id: str) -> None:
        self._client_id = client_id
        self._runner = FlowRunner(shared_pool(settings))
        self._reading: RangeRead | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, reading: RangeRead | None) -> None:
        self._reading = reading
        if reading is not None and self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="tubeclient-lease", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _beat(self) -> None:
        while not self._stop.wait(LEASE_BEAT_MS / 1000):
            reading = self._reading
            group = reading.group if reading is not None else None
            if reading is None or group is None:
                continue
            task = reading.task
            try:
                reader = task.reader(group)
                request = reader.beat(task.broker, [task.range.partition], filtered=bool(task.filters))
                answer = self._runner.run(call(task.broker.address, Method.PARTITION_HEARTBEAT, request))
                checked(answer, f"keeping the lease of {task.range.partition}")
            except TubeError as error:
                _log.info("a lease heartbeat for %s failed, the reader will see to it: %s", task.range, error)
