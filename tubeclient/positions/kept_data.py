"""Whether all messages of a range were still there when it was read. Brokers skip expired messages without notice."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping

from tubeclient.consumers.group import fetch_view
from tubeclient.flows.data_look import DataLook
from tubeclient.flows.patience import Patience
from tubeclient.flows.read_range import LostRange, Pack
from tubeclient.flows.stay import ReaderNames
from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_STORE_PARTITIONS, BrokerInfo, OffsetRange, PartitionKey, StoreKey
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)


class _Doubt:
    """Ranges of one store that were read and had fewer messages than index entries."""

    def __init__(self, broker: BrokerInfo) -> None:
        self.broker = broker
        self.froms: dict[OffsetRange, int] = {}
        self.with_messages: set[PartitionKey] = set()
        self.lacking: dict[OffsetRange, int] = {}
        """Index entries without a message, of ranges that were read without a filter."""


class KeptData:
    """Notes the packs of ranges, and finds at the end what of the ranges had expired.

    A pack with as many messages as index entries lacks nothing. Else the missing ones may be of other partitions,
    filtered out or expired, so the broker is asked where its data begins, once for each store.
    """

    def __init__(
        self,
        settings: ClientSettings,
        names: ReaderNames,
        sizes: dict[tuple[int, str], int],
    ) -> None:
        """`sizes` keeps what the master said of them, by broker id and topic."""
        self._settings = settings
        self._names = names
        self._doubts: dict[StoreKey, _Doubt] = {}
        self._sizes = sizes

    def note(self, broker: BrokerInfo, of: OffsetRange, pack: Pack, *, filtered: bool = False) -> None:
        """Record a `pack` of this range."""
        missing = (pack.end - pack.start) // INDEX_ENTRY_BYTES - len(pack)
        if not missing and not self._doubts:
            return
        doubt = self._doubts.get(pack.partition.store)
        if missing:
            if doubt is None:
                doubt = self._doubts[pack.partition.store] = _Doubt(broker)
            doubt.froms.setdefault(of, pack.start)
            if not filtered:
                doubt.lacking[of] = doubt.lacking.get(of, 0) + missing
        if doubt is not None and len(pack):
            doubt.with_messages.add(pack.partition)

    def losses(self, runner: FlowRunner, store_sizes: Mapping[tuple[int, str], int]) -> list[LostRange]:
        """The parts of the noted ranges that have expired, perhaps after they were read. Forgets the ranges.

        `store_sizes` says how many partitions the stores of a broker's topic have; the master is asked for others.
        In a store of one partition all messages are its own, so those that are missing and have not expired are logged.
        """
        doubts, self._doubts = self._doubts, {}
        lost = []
        for store, doubt in sorted(doubts.items()):
            place, start_of_doubt = (store.broker_id, store.topic), min(doubt.froms.values())
            size = store_sizes.get(place) or self._asked_size(place)
            first = self._first(runner, store, doubt, size)
            # The sizes may be old, so a partition may have come since. That one is not what expired.
            if first > start_of_doubt and (now := self._asked_size(place)) > size:
                size, first = now, self._first(runner, store, doubt, now)
            for of, count in sorted(doubt.lacking.items() if size == 1 else ()):
                if doubt.froms[of] >= first:
                    _log.warning(
                        "partition %s, offsets [%d, %d): the broker left out %d index entries, although their data has"
                        " not expired. It skips messages that are damaged on its disk; or the topic had more partitions"
                        " before",
                        of.partition,
                        doubt.froms[of],
                        of.end,
                        count,
                    )
            lost += [
                LostRange(of.partition, start, min(first, of.end), within_packs=True)
                for of, start in sorted(doubt.froms.items())
                if start < first
            ]
        return lost

    def _first(self, runner: FlowRunner, store: StoreKey, doubt: _Doubt, size: int) -> int:
        """The first offset with data of a store of `size` partitions, or any offset up to where the doubt begins."""
        first_id = store.store_id * MAX_STORE_PARTITIONS
        every = {PartitionKey(store.broker_id, store.topic, first_id + number) for number in range(size)}
        every |= {of.partition for of in doubt.froms}
        partitions = sorted(every, key=lambda key: (key not in doubt.with_messages, key))
        look = DataLook(doubt.broker, partitions, self._names)
        patience = Patience(self._settings.retry_limit_ms, 10 * self._settings.retry_limit_ms)
        try:
            _, first = runner.run(look.first_if_behind(min(doubt.froms.values()), patience, random.Random()))
        finally:
            runner.run(look.release())
        return first

    def _asked_size(self, place: tuple[int, str]) -> int:
        if place not in self._sizes:
            view = fetch_view(self._settings, [place[1]], self._names.groups)
            self._sizes |= {(layout.broker_id, layout.topic): layout.partitions_per_store for layout in view.layouts}
        return self._sizes.get(place, 0)
