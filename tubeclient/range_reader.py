"""Exact ranges, read on the calling thread.

Nothing keeps the lease of a partition. If it ends while a pack is processed, the partition is registered again at the
end of that pack."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tubeclient.access import authority_of
from tubeclient.arguments import checked_kind, checked_partition
from tubeclient.counts import ReadCounts
from tubeclient.errors import ClientClosed, DataLoss, NoSuchPartition
from tubeclient.flows.message_pack import BadMessages, check_bad_messages, counted_place
from tubeclient.flows.read_range import AFTER_LOSS, LostRange, Pack, RangeRead, RangeTask
from tubeclient.flows.stay import ReaderNames
from tubeclient.identity import new_client_id
from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey
from tubeclient.names import checked_reader_groups, checked_tags, topic_name
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import shared_pool
from tubeclient.net.runner import FlowRunner
from tubeclient.positions.kept_data import KeptData
from tubeclient.settings import ClientSettings, checked_settings

__all__ = ["LostRange", "Pack", "RangeReader", "WantedRange"]

_log = logging.getLogger(__name__)

_CLOSED = "this RangeReader is closed; make a new one"


class WantedRange(NamedTuple):
    """A range to read, and the tags to filter by (none: all messages)."""

    broker: BrokerInfo
    range: OffsetRange
    filters: frozenset[str] = frozenset()


class RangeReader(ProcessBound):
    """Reads ranges, each under the first of `reader_groups` in which its partition is free. So as many readers as there
    are groups may have one partition at once. Others wait for their turn, at most ten minutes.

    The same range always gives the same messages in the same order. With `fail_on_data_loss` false, what the broker no
    longer holds is skipped and listed in `losses`; else it is a DataLoss. With `bad_messages` "keep", messages that do
    not match their checksums or cannot be parsed are in their pack's `bad`; else they are a CorruptMessage. Some
    brokers check `visit_token`, the master's token from `GroupMembership` or `ClusterView`, which may be some minutes
    old. `store_sizes` says how many partitions each store has, by broker id and topic; the master is asked for those
    that are missing. One reader is used by one thread. Close it, or use it as a context manager.

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
        """Yield the range's packs, in order and without gaps. Raises DataLoss, ContradictoryAnswers, DeadlineExceeded
        or the StatusError of a refusal.

        With `filters`, brokers compare only a 32-bit hash of tags, so the result may have messages of other tags with
        the same hash.
        """
        with contextlib.closing(self.read_all([WantedRange(broker, offset_range, filters)])) as found:
            for _, pack in found:
                if pack is not None:
                    yield pack

    def read_all(self, wanted: Sequence[WantedRange]) -> Generator[tuple[int, Pack | None], None, None]:
        """Yield (number, pack) of all these ranges, and (number, None) at the end of each. They are read one after the
        other, in the order of their partitions. Raises as `read` does. Messages that expired without notice raise a
        DataLoss at the end.
        """
        self._check_open()
        for one in wanted:
            checked_kind(one, WantedRange, "a range to read", "WantedRange(broker, OffsetRange(partition, 0, 2800))")
            checked_kind(one.broker, BrokerInfo, "the broker of a range", "ClusterView.broker_of(partition)")
            checked_kind(one.range, OffsetRange, "a range", "OffsetRange(partition, 0, 2800)")
        # Of this read alone: one that is left before its end has nothing to say in a later one.
        kept = KeptData(self._settings, self._names, self._asked_sizes)
        for number, one in sorted(enumerate(wanted), key=lambda numbered: numbered[1].range.partition):
            self._check_open()
            reading = RangeRead(self._task(one), random.Random())
            told = False
            try:
                for step in self._runner.iterate(reading.run()):
                    self._check_open()
                    if isinstance(step, LostRange):
                        self._lost(step)
                        continue
                    damaged = step.damaged or {}
                    self._counts.delivered(step.partition.topic, len(step), step.payload_bytes, len(damaged))
                    kept.note(one.broker, one.range, step, filtered=bool(one.filters))
                    if damaged and not told:
                        told = True
                        _tell_damaged(step, damaged)
                    yield number, step
            finally:
                FlowRunner(self._pool).run(reading.release())
            yield number, None
        self._check_kept(kept)

    def _check_kept(self, kept: KeptData) -> None:
        """Raise a DataLoss for what expired of the ranges, or note it in `losses`."""
        for lost in kept.losses(self._runner, self._store_sizes):
            if self._fail_on_data_loss:
                self._counts.lost(lost.partition.topic, lost.max_messages)
                raise DataLoss(
                    f"the broker has the messages of partition {lost.partition} only from {lost.end}: at most "
                    f"{lost.max_messages} messages from {lost.start} on expired before or during the read. "
                    + AFTER_LOSS,
                    partition=str(lost.partition),
                    wanted=lost.start,
                    found=lost.end,
                )
            self._lost(lost)

    def _lost(self, lost: LostRange) -> None:
        self._counts.lost(lost.partition.topic, lost.max_messages)
        self.losses.append(lost)
        _log.warning("lost and skipped: %s", lost)

    def has_partition(self, broker: BrokerInfo, partition: PartitionKey) -> bool:
        """Whether the broker has that partition now. Raises as `read` does if it gives no answer."""
        self._check_open()
        checked_kind(broker, BrokerInfo, "the broker of a range", "ClusterView.broker_of(partition)")
        nothing = OffsetRange(checked_partition(partition), 0, 0)
        asking = RangeRead(self._task(WantedRange(broker, nothing)), random.Random())
        try:
            self._runner.run(asking.run())
        except NoSuchPartition:
            return False
        except DataLoss:  # its first messages have expired
            return True
        finally:
            self._runner.run(asking.release())
        return True

    def _task(self, wanted: WantedRange) -> RangeTask:
        return RangeTask(
            wanted.broker,
            wanted.range,
            self._names,
            checked_tags(topic_name(wanted.range.partition.topic), wanted.filters),
            self._fail_on_data_loss,
            self._settings.retry_limit_ms,
            bad_messages=self._bad_messages,
            counts=self._counts,
            alone=self._store_sizes.get((wanted.broker.broker_id, wanted.range.partition.topic)) == 1,
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


def _tell_damaged(pack: Pack, damaged: Mapping[int, str]) -> None:
    number, reason = next(iter(damaged.items()))
    place = counted_place(pack.partition, pack.start, pack.end, len(pack), number)
    _log.warning(
        "partition %s, offsets [%d, %d): kept the message with id %d, but %s. Of this range no further one is logged",
        place.partition,
        place.start,
        place.end,
        pack.columns.ids[number],
        reason,
    )
