"""Exact ranges, read on the calling thread.

Nothing keeps the lease of a partition. If it ends while a pack is processed, the partition is registered again at the
end of that pack."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tubeclient.access import authority_of
from tubeclient.arguments import checked_kind, checked_partition
from tubeclient.consumers.group import fetch_view
from tubeclient.counts import ReadCounts
from tubeclient.errors import ClientClosed, DataLoss, NoSuchPartition
from tubeclient.flows.data_probe import DataProbe
from tubeclient.flows.message_pack import BadMessages, check_bad_messages
from tubeclient.flows.read_range import TURN_LIMIT_MS, LostRange, Pack, RangeRead, data_loss
from tubeclient.flows.read_session import ReaderNames, RetryPolicy
from tubeclient.identity import new_client_id
from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_STORE_PARTITIONS, BrokerInfo, OffsetRange, PartitionKey, StoreKey
from tubeclient.names import checked_reader_groups, checked_tags, topic_name
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import shared_pool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings, checked_settings

__all__ = ["LostRange", "Pack", "RangeReader", "WantedRange"]

_log = logging.getLogger(__name__)

_CLOSED = "this RangeReader is closed; make a new one"


class WantedRange(NamedTuple):
    """A range to read, and the tags to filter by (none: all messages)."""

    broker: BrokerInfo
    range: OffsetRange
    filters: frozenset[str] = frozenset()


class _SuspectedLoss:
    """Ranges of one store that were read and had fewer messages than index entries. The missing ones may be of other
    partitions, filtered out, or expired: brokers skip expired messages without notice."""

    def __init__(self, broker: BrokerInfo) -> None:
        self.broker = broker
        self.froms: dict[OffsetRange, int] = {}
        self.with_messages: set[PartitionKey] = set()
        self.lacking: dict[OffsetRange, int] = {}
        """Index entries without a message, of ranges that were read without a filter."""


_SuspectedLosses = dict[StoreKey, _SuspectedLoss]


def _note(losses: _SuspectedLosses, of: WantedRange, pack: Pack) -> None:
    missing = (pack.end - pack.start) // INDEX_ENTRY_BYTES - len(pack)
    if missing:
        suspected = losses.setdefault(pack.partition.store, _SuspectedLoss(of.broker))
        suspected.froms.setdefault(of.range, pack.start)
        if not of.filters:
            suspected.lacking[of.range] = suspected.lacking.get(of.range, 0) + missing
    if len(pack) and pack.partition.store in losses:
        losses[pack.partition.store].with_messages.add(pack.partition)


class RangeReader(ProcessBound):
    """Reads ranges, each under the first of `reader_groups` in which its partition is free.

    As many readers as there are groups may have one partition at once. Others wait for their turn, at most ten minutes.

    The same range always gives the same messages in the same order. One thread uses a reader. Close it, or use it as a
    context manager.

        >>> broker = fetch_view(settings, ["clicks"], reader_groups_of("clicks_etl")).brokers[1]
        >>> with RangeReader(settings, reader_groups_of("clicks_etl")) as reader:
        ...     for pack in reader.read(broker, OffsetRange(PartitionKey(1, "clicks", 0), 0, 28)):
        ...         print(len(pack))
        1

    Args:
        fail_on_data_loss: If false, what the broker no longer holds is skipped and listed in `losses`. Otherwise it is
            a DataLoss.
        bad_messages: With "keep", messages that do not match their checksums or cannot be parsed are in their pack's
            `bad`. Otherwise they are a CorruptMessage.
        visit_token: The master's token from `GroupMembership` or `ClusterView`, which some brokers check. It may be
            some minutes old.
        store_sizes: How many partitions each store has, by broker id and topic. The master is asked for those that are
            missing.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        settings: ClientSettings,
        reader_groups: tuple[str, ...],
        client_name: str = "range",
        *,
        fail_on_data_loss: bool = True,
        bad_messages: BadMessages = "fail",
        visit_token: int | None = None,
        store_sizes: Mapping[tuple[int, str], int] | None = None,
    ) -> None:
        super().__init__()
        self.losses: list[LostRange] = []
        self._settings = checked_settings(settings)
        groups = checked_reader_groups(reader_groups)
        new_id = partial(new_client_id, groups[0], client_name)
        self._names = ReaderNames(groups, new_id, authority_of(settings, visit_token))
        self._fail_on_data_loss = fail_on_data_loss
        check_bad_messages(bad_messages)
        self._bad_messages = bad_messages
        self._closed = False
        self._pool = shared_pool(settings)
        self._runner = FlowRunner(self._pool)
        self._store_sizes = store_sizes or {}
        self._asked_sizes: dict[tuple[int, str], int] = {}
        self._counts = ReadCounts(groups[0])

    def read(
        self, broker: BrokerInfo, offset_range: OffsetRange, filters: frozenset[str] = frozenset()
    ) -> Generator[Pack, None, None]:
        """Yield the range's packs, in order and without gaps.

        Args:
            filters: Tags to filter by. Brokers compare only a 32-bit hash of tags, so messages of other tags with the
                same hash may be among the result.

        Raises:
            DataLoss: The broker no longer holds messages of the range, and `fail_on_data_loss` is true.
            ContradictoryAnswers: The broker's answers do not fit each other or their offsets.
            CorruptMessage: A message is damaged, and bad messages are not kept.
            DeadlineExceeded: The broker made no progress in time.
            StatusError: The broker refuses.
            ClientClosed: The reader is closed.
        """
        with contextlib.closing(self.read_all([WantedRange(broker, offset_range, filters)])) as found:
            for _, pack in found:
                if pack is not None:
                    yield pack

    def read_all(self, wanted: Sequence[WantedRange]) -> Generator[tuple[int, Pack | None], None, None]:
        """Read ranges one after the other, in the order of their partitions.

        Yields:
            The number of a range in `wanted` and a pack of it. At the end of each range, its number and None.

        Raises:
            DataLoss: As in `read`. Messages that expired without notice raise it at the end.
            TubeError: As in `read`.
        """
        self._check_open()
        for part in wanted:
            checked_kind(part, WantedRange, "a range to read", "WantedRange(broker, OffsetRange(partition, 0, 2800))")
            checked_kind(part.broker, BrokerInfo, "the broker of a range", "ClusterView.broker_of(partition)")
            checked_kind(part.range, OffsetRange, "a range", "OffsetRange(partition, 0, 2800)")
        losses: _SuspectedLosses = {}  # of this read alone
        for number, part in sorted(enumerate(wanted), key=lambda numbered: numbered[1].range.partition):
            self._check_open()
            reading = self._reading(part)
            try:
                for step in self._runner.iterate(reading.run()):
                    self._check_open()
                    if isinstance(step, LostRange):
                        self._lost(step)
                        continue
                    bad = len(step.damaged or ())
                    self._counts.delivered(step.partition.topic, len(step), step.payload_bytes, bad)
                    _note(losses, part, step)
                    yield number, step
            finally:
                FlowRunner(self._pool).run(reading.release())
            yield number, None
        self._check_nothing_expired(losses)

    def _check_nothing_expired(self, losses: _SuspectedLosses) -> None:
        """Raise a DataLoss for what expired of the ranges, or note it in `losses`."""
        for lost in self._expired(losses):
            if self._fail_on_data_loss:
                self._counts.lost(lost.partition.topic, lost.max_messages)
                raise data_loss(
                    lost.partition,
                    lost.start,
                    lost.end,
                    f"the broker has messages of partition {lost.partition} only from {lost.end} on: at most "
                    f"{lost.max_messages} messages from {lost.start} on expired before or during the read",
                )
            self._lost(lost)

    def _expired(self, losses: _SuspectedLosses) -> Iterator[LostRange]:
        """What of the ranges has expired, perhaps after it was read. Each store is asked once where its data begins."""
        for store, suspected in sorted(losses.items()):
            known = self._store_sizes.get((store.broker_id, store.topic))
            size = known or self._asked_size(store)
            first = self._first(store, suspected, size)
            # A partition may have come since the sizes were known. That one is not what expired.
            if known and first > min(suspected.froms.values()) and (now := self._asked_size(store)) > size:
                size, first = now, self._first(store, suspected, now)
            for of, start in sorted(suspected.froms.items()):
                if start < first:
                    yield LostRange(of.partition, start, min(first, of.end), within_packs=True)
                elif size == 1 and of in suspected.lacking:
                    _log.warning(
                        "partition %s, offsets [%d, %d): the broker skipped %d index entries whose data has not "
                        "expired. Either the messages are damaged on its disk, or the topic used to have more "
                        "partitions",
                        of.partition,
                        start,
                        of.end,
                        suspected.lacking[of],
                    )

    def _first(self, store: StoreKey, suspected: _SuspectedLoss, size: int) -> int:
        """The first offset with data of a store of `size` partitions, or any offset up to where the doubt begins."""
        first_id = store.store_id * MAX_STORE_PARTITIONS
        every = {PartitionKey(store.broker_id, store.topic, first_id + number) for number in range(size)}
        every |= {of.partition for of in suspected.froms}
        probe = DataProbe(
            suspected.broker, sorted(every, key=lambda key: (key not in suspected.with_messages, key)), self._names
        )
        retries = RetryPolicy(suspected.broker, random.Random(), self._settings.retry_limit_ms, TURN_LIMIT_MS)
        try:
            _, first = self._runner.run(probe.first_if_behind(min(suspected.froms.values()), retries))
        finally:
            self._runner.run(probe.release())
        return first

    def _asked_size(self, store: StoreKey) -> int:
        """How many partitions the master gives the stores of this one's topic on its broker. It is asked once."""
        place = store.broker_id, store.topic
        if place not in self._asked_sizes:
            view = fetch_view(self._settings, [store.topic], self._names.groups)
            self._asked_sizes |= {
                (layout.broker_id, layout.topic): layout.partitions_per_store for layout in view.layouts
            }
        return self._asked_sizes.get(place, 0)

    def _lost(self, lost: LostRange) -> None:
        self._counts.lost(lost.partition.topic, lost.max_messages)
        self.losses.append(lost)
        _log.warning("lost and skipped: %s", lost)

    def has_partition(self, broker: BrokerInfo, partition: PartitionKey) -> bool:
        """Return whether the broker has that partition now.

        Raises:
            TubeError: The broker gives no answer; see `read`.
        """
        self._check_open()
        checked_kind(broker, BrokerInfo, "the broker of a range", "ClusterView.broker_of(partition)")
        nothing = OffsetRange(checked_partition(partition), 0, 0)
        asking = self._reading(WantedRange(broker, nothing))
        try:
            self._runner.run(asking.run())
        except NoSuchPartition:
            return False
        except DataLoss:  # its first messages have expired
            return True
        finally:
            self._runner.run(asking.release())
        return True

    def _reading(self, wanted: WantedRange) -> RangeRead:
        topic = wanted.range.partition.topic
        return RangeRead(
            wanted.broker,
            wanted.range,
            self._names,
            random.Random(),
            filters=checked_tags(topic_name(topic), wanted.filters),
            fail_on_data_loss=self._fail_on_data_loss,
            retry_limit_ms=self._settings.retry_limit_ms,
            bad_messages=self._bad_messages,
            counts=self._counts,
            alone=self._store_sizes.get((wanted.broker.broker_id, topic)) == 1,
        )

    def _check_open(self) -> None:
        self.check_process()
        if self._closed:
            raise ClientClosed(_CLOSED)

    def close(self) -> None:
        """Have reads raise ClientClosed from now on. Another thread may call it: a read that waits then ends at once.

        Connections stay in the process's pool for the next reader.
        """
        if not self.inherited:
            self._closed = True
            self._runner.stop(ClientClosed(_CLOSED))

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
