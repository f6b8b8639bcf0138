"""What the partitions of a store have from an offset on. It registers there and fetches, under a reader group since
every registration moves its group's position.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from tubeclient.errors import (
    DeadlineExceeded,
    NotAvailable,
    NothingToRead,
    PartitionOccupied,
    PartitionTaken,
    ProtocolError,
    TubeError,
)
from tubeclient.flows.authority import Authority
from tubeclient.flows.data_search import Seen, first_with_data, has_data_before
from tubeclient.flows.effects import Flow, Now, Sleep, backoff_ms
from tubeclient.flows.patience import Patience
from tubeclient.flows.stay import Stay
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, StoreBounds

__all__ = ["DataLook"]

_NOT_FOUND = 404


class DataLook:
    """Looks into one store of `broker`. `partitions` are all partitions of the store, first those likely to have much.

    `new_client_id` makes a new unique client id at each call. Methods raise the StatusError of a
    refusal, PartitionOccupied if a partition is read in all `reader_groups`, and the error of a call. Run `release()`
    afterwards, however they ended.
    """

    def __init__(
        self,
        broker: BrokerInfo,
        partitions: Iterable[PartitionKey],
        reader_groups: tuple[str, ...],
        new_client_id: Callable[[], str],
        authority: Authority,
    ) -> None:
        self._broker = broker
        self._stays = [(key, Stay(broker, key, reader_groups, new_client_id, authority)) for key in partitions]

    def first(self, bounds: StoreBounds) -> Flow[int]:
        """The first offset within the index's `bounds` that has data."""
        return (yield from first_with_data(self._look, len(self._stays), bounds))

    def first_if_behind(self, offset: int, patience: Patience, rng: random.Random) -> Flow[tuple[int, int]]:
        """Where the index begins, and the first offset that has data, if that is after `offset`. Else both are some
        numbers up to `offset`.

        Faults are tried again as long as `patience` says, then a DeadlineExceeded is raised.
        """
        patience.progress((yield Now()))
        attempt = 0
        while True:
            try:
                if (yield from has_data_before(self._look, len(self._stays), offset)):
                    return 0, offset
                key, stay = self._stays[0]
                answer = yield from stay.seek(0, _looking_at(key))
                bounds = StoreBounds(answer.currOffset, answer.maxOffset)
                first = yield from first_with_data(self._look, len(self._stays), bounds, offset)
                return bounds.min_offset, first
            except TubeError as error:
                if not error.retriable and not isinstance(error, NotAvailable | PartitionTaken):
                    raise
                now_ms = yield Now()
                if isinstance(error, PartitionOccupied | PartitionTaken):
                    for _, stay in self._stays:
                        stay.was_turned_away()
                    patience.must_wait(now_ms)
                if patience.is_over(now_ms):
                    raise DeadlineExceeded(
                        f"could not find out within {patience.spent_ms(now_ms) / 1000:.0f} s whether broker "
                        f"{self._broker} still has the data from {offset} on: {error}. Check that broker and the "
                        "network, or allow a longer retry limit",
                        address=self._broker.address,
                    ) from error
                yield Sleep(backoff_ms(attempt, rng.random()))
                attempt += 1

    def release(self) -> Flow[None]:
        """Release the partitions, best effort."""
        for _, stay in self._stays:
            yield from stay.leave()

    def _look(self, number: int, offset: int, limit: int) -> Flow[Seen]:
        key, stay = self._stays[number]
        doing = _looking_at(key)
        answer = yield from stay.seek(offset, doing)
        if answer.currOffset < offset:  # the broker's data now ends there
            return Seen(None, offset + INDEX_ENTRY_BYTES)
        passed = answer.currOffset
        while True:
            response = yield from stay.receive((yield from stay.send_fetch()))
            found = response.errCode != _NOT_FOUND
            if found:
                stay.checked(response, doing)
            position, end = yield from stay.commit(doing)
            if found and (ids := response.messages.messageId):
                last = position - len(ids) * INDEX_ENTRY_BYTES
                if last < passed:
                    raise ProtocolError(f"{doing}: the broker ends {len(ids)} messages from {passed} on at {position}")
                return Seen(ids[0], last)
            if position <= passed and (found or position < end):
                raise NothingToRead(_NOT_FOUND, "nothing to read although there is data", context=doing)
            passed = position
            if passed >= limit or passed >= end:
                return Seen(None, max(passed, offset + INDEX_ENTRY_BYTES))


def _looking_at(key: PartitionKey) -> str:
    return f"looking for the first data of partition {key}"
