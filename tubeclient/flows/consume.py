"""Fetching and confirming, as a client of a group that balances itself.

One `Consumption` is shared by all threads of a consumer; its methods are flows, run one step at a time.

What the broker does with a fetch (auto mode): it notes how far it read, and the next commit adds that to the group's
position. A fetch that is repeated without a commit gives the same pack again, so a lost answer costs nothing. A lost
answer to a commit leaves open whether it was done; a second commit that gives up what was noted since tells.
"""

from __future__ import annotations

from tubeclient.errors import (
    ClientClosed,
    PartitionTaken,
    RegistrationLost,
    StalePack,
    TransportError,
    TubeError,
)
from tubeclient.flows.effects import (
    Flow,
    Notify,
    Now,
    Receive,
    Sleep,
    WallClock,
    checked,
)
from tubeclient.flows.fetch import Fetching
from tubeclient.flows.holdings import Delivery, Holding, Phase
from tubeclient.flows.registrar import CHANGED, WAIT_SLICE_MS
from tubeclient.keys import PartitionKey
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

__all__ = ["Consumption"]


class Consumption(Fetching):
    """Fetching from the partitions that `registrations` hold, and confirming."""

    def confirm(self, delivery: Delivery, *, consumed: bool) -> Flow[int]:
        """Commit a pack, or have it read again; returns the group's position afterwards, the pack's end.

        StalePack where it does not count any more.
        """
        holding = self._holdings.by_key.get(delivery.partition)
        if holding is None and self._registrations.closed:
            raise ClientClosed("this consumer is closed")
        if holding is None or holding.delivery != delivery.number or holding.phase is not Phase.DELIVERED:
            raise StalePack(partition=str(delivery.partition))
        holding.delivery, delivery.settled = None, True
        self._holdings.delivered.pop(holding, None)
        holding.phase = Phase.CONFIRMING
        holding.committing = True
        try:
            position = yield from self._commit(holding, delivery, consumed)
        except TubeError:
            self._end_commit(holding)
            yield Notify(CHANGED)
            raise
        finally:  # even where the caller was interrupted
            self._end_commit(holding)
        yield Notify(CHANGED)
        return position

    def _commit(self, holding: Holding, delivery: Delivery, consumed: bool) -> Flow[int]:
        key, epoch = holding.key, holding.epoch
        request = self._commit_request(key, consumed)
        try:
            ticket = yield from self._registrations.send(holding, Method.COMMIT_OFFSET, request)
            if holding.phase is Phase.CONFIRMING and holding.epoch == epoch:
                # The commit is on its way, so the partition's next fetch may follow it on the same connection. Its
                # answer is not looked at before the commit's.
                now: float = yield Now()
                holding.noted = False
                self._holdings.set_idle(holding, holding.resume_ms if holding.resume_ms > now else 0.0)
                # The caller comes back for another pack: the one asked for now keeps the broker at work meanwhile.
                yield from self.send_fetches(more=min(self._plan.prefetch, 1))
            answer = yield Receive(ticket)
            checked(answer, f"confirming a pack of partition {key}", partition=str(key))
        except (TransportError, RegistrationLost) as error:
            return (yield from self._find_out(holding, epoch, delivery, consumed, error))
        except PartitionTaken as error:
            yield from self._registrations.lose(holding, error)
            raise StalePack(partition=str(key)) from error
        if holding.epoch == epoch:
            holding.confirmed = holding.expected = answer.currOffset
            holding.end = max(answer.maxOffset, answer.currOffset)
            holding.updated_ms = yield WallClock()
        position: int = answer.currOffset
        return position

    def _commit_request(self, key: PartitionKey, consumed: bool) -> broker_pb2.CommitOffsetRequestC2B:
        return broker_pb2.CommitOffsetRequestC2B(
            clientId=self._plan.client_id,
            topicName=key.topic,
            partitionId=key.partition_id,
            groupName=self._plan.group,
            lastPackConsumed=consumed,
        )

    def _end_commit(self, holding: Holding) -> None:
        holding.committing = False
        if holding.phase is Phase.CONFIRMING:
            self._holdings.set_idle(holding)

    def _find_out(
        self, holding: Holding, epoch: int, delivery: Delivery, consumed: bool, error: TubeError
    ) -> Flow[int]:
        """A commit's answer was lost, or the registration was: find out where the group stands.

        A second commit that gives up what was noted since tells, as long as the broker has not forgotten us; where it
        has, the messages of the pack may come again.
        """
        while holding.phase is Phase.REGISTERING and holding.epoch == epoch:  # somebody else does
            yield Sleep(WAIT_SLICE_MS, CHANGED)
        if holding.epoch == epoch and holding.phase is not Phase.GONE and isinstance(error, TransportError):
            self._holdings.drop_work(holding)
            holding.phase = Phase.CONFIRMING
            try:
                request = self._commit_request(holding.key, False)
                ticket = yield from self._registrations.send(holding, Method.COMMIT_OFFSET, request)
                answer = yield Receive(ticket)
                checked(answer, f"confirming a pack of partition {holding.key}", partition=str(holding.key))
            except RegistrationLost as lost:
                error = lost
            except TransportError:
                yield from self._registrations.line_down(holding.line)
                raise error from None
            else:
                if holding.epoch == epoch:
                    holding.confirmed = holding.expected = answer.currOffset
                    holding.commit_next = holding.noted = False
                if answer.currOffset > delivery.start or not consumed:
                    position: int = answer.currOffset
                    return position
                raise StalePack(partition=str(holding.key)) from error
        if holding.epoch == epoch and holding.phase is not Phase.GONE:
            holding.phase = Phase.IDLE
            yield from self._registrations.rejoin(holding)
        raise StalePack(partition=str(holding.key)) from error
