"""Takes partitions at their brokers, moves them and gives them back.

A registration is a seek too. It moves the group to an offset, or tells where the group stands, and the broker drops
what it had noted of earlier fetches. So no request from before a registration may reach the broker after it. A late
fetch would be noted on top of the pack that is out, and the commit of that pack would cover messages that were never
delivered. But a request may come long after its connection broke, its time ran out, or its caller was interrupted.

So a partition with an unanswered request is given back before it is registered, and gets another client id: the broker
refuses what comes late under the former one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from tubeclient.errors import DataLoss, PartitionOccupied, PartitionUnavailable, TubeError
from tubeclient.flows.effects import ConnectionTo, Flow, Now, Send, SendAll, Sleep, WallClock, backoff_ms, call, checked
from tubeclient.flows.holding import ConfirmedPosition, Holding, Phase
from tubeclient.flows.read_plan import BootstrapOffset, ReadPlan, StartFrom
from tubeclient.flows.reader import AT_MAX, AT_MIN_IF_NEW, FREE, TAKEN, Reader
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

UNKNOWN: Final = ConfirmedPosition(-1, is_unconfirmed=False)
_STATUS_OF_START: dict[StartFrom, int] = {"earliest": 0, "latest": 1, "always_latest": 2}


class Registrations:
    """Those of one consumer. `check_open` raises if the consumer has ended."""

    def __init__(self, plan: ReadPlan, rng: random.Random, check_open: Callable[[], None]) -> None:
        self.unsure: set[PartitionKey] = set()
        """Partitions whose last registration was not answered."""
        self._plan, self._rng, self._check_open = plan, rng, check_open
        self._reader = Reader(plan.group, plan.client_id, plan.authority)
        self._lives: dict[PartitionKey, int] = {}
        self._open: set[tuple[PartitionKey, Reader]] = set()
        """Requests that were not answered, and may come late."""
        self._seen: set[PartitionKey] = set()
        """Partitions that this consumer had before."""

    def reader(self, key: PartitionKey) -> Reader:
        """The reader that has the partition, or is about to have it."""
        return self._reader.in_life(self._lives.get(key, 0))

    def sending(self, holding: Holding, *sends: Send) -> SendAll:
        """The effect that sends requests of the partition. They may come late, until `received` says otherwise."""
        self._open.add((holding.key, self.reader(holding.key)))
        return SendAll(sends)

    def received(self, holding: Holding) -> None:
        """The open request of the partition's present version was answered."""
        self._open.discard((holding.key, self.reader(holding.key)))

    def _ask(self, holding: Holding, reader: Reader, request: Message) -> Flow[Any]:
        self._open.add((holding.key, reader))
        answer = yield from call(holding.line.info.address, Method.PARTITION_REGISTER, request)
        self._open.discard((holding.key, reader))
        return answer

    def unregister(self, holding: Holding, reader: Reader) -> Flow[int]:
        """Give the partition back. Returns the broker's code. What may come late is refused from then on."""
        key = holding.key
        late = (key, reader) in self._open
        answer = yield from self._ask(holding, reader, reader.unregister(key))
        if answer.errCode not in (200, FREE, TAKEN):  # Apache's 200 has the offset -1 here
            if late:
                self._open.add((key, reader))
            self._checked(holding, answer)
        elif late and self.reader(key) == reader:
            self._lives[key] = self._lives.get(key, 0) + 1
        return int(answer.errCode)

    def on_same_run(self, holding: Holding) -> Flow[bool]:
        """Whether the broker surely was not restarted since it said that the partition is ours."""
        connection = yield ConnectionTo(holding.line.info.address)
        return connection is not None and connection == holding.connection

    def register(self, holding: Holding, offset: int, deadline: float) -> Flow[int]:
        """Register at `offset`, with retries until `deadline`; returns the group's new position.

        "Stored" is the last position known to this consumer. The broker knows it, with two exceptions. After a crash it
        has an older one. After a clean stop it has counted what it had noted for us as confirmed
        (DefaultOffsetManager.close), delivered or not. After a lost tail the broker has other messages there, which
        must not be skipped.

        Raises DataLoss, after restoring the group's position, for an offset that the broker does not hold (if the plan
        says so), or the error of the last attempt.
        """
        holding.void()
        careful = offset >= 0 and self._plan.fail_on_data_loss
        former = 0
        if careful:  # a broker silently goes to the nearest offset, so we may have to go back
            former = yield from self._seek(holding, BootstrapOffset.STORED, deadline)
        start = yield from self._seek(holding, offset, deadline, moves=offset != BootstrapOffset.STORED)
        confirmed, is_unconfirmed = holding.last_position or UNKNOWN
        moved_alone = start != confirmed and (is_unconfirmed or start < confirmed)
        if offset == BootstrapOffset.STORED and moved_alone and 0 <= confirmed <= holding.end:
            start = yield from self._seek(holding, confirmed, deadline)
            if start > confirmed:
                holding.expected = confirmed  # that has expired; the next pack shows it
        holding.last_position, holding.jumps = None, False
        if careful and start != offset - offset % INDEX_ENTRY_BYTES:
            if is_unconfirmed and confirmed >= 0:
                former = min(former, confirmed)  # what was noted may have been counted as confirmed
            yield from self._seek(holding, former, deadline, moves=True)
            holding.last_position = None
            holding.rest(expected=former)
            raise DataLoss(
                f"partition {holding.key} cannot be read from {offset} on: broker {holding.line.info} holds offsets "
                f"from {start if start > offset else 'its beginning'} to {holding.end}. Connect at an offset that "
                "the broker holds, or set fail_on_data_loss=False to start at the nearest one",
                partition=str(holding.key),
                wanted=offset,
                found=start,
            )
        holding.rest(expected=holding.expected)
        return start

    def _seek(self, holding: Holding, offset: int, deadline: float, *, moves: bool = False) -> Flow[int]:
        """Register at `offset`, or at the nearest one that the broker holds. With `moves` it does not matter any more
        what lies before. Tried again until `deadline`, as long as the errors are retriable."""
        failures = 0
        version = holding.become(Phase.REGISTERING)
        while True:
            try:
                return (yield from self._seek_once(holding, version, offset, moves=moves))
            except TubeError as error:
                pause = backoff_ms(failures, self._rng.random())
                failures += 1
                if not error.retriable or (yield Now()) + pause > deadline:
                    raise
                yield Sleep(pause)
                self._check_open()

    def _seek_once(self, holding: Holding, version: int, offset: int, *, moves: bool) -> Flow[int]:
        key = holding.key
        if holding.version != version:
            raise released(key)
        if (key, self.reader(key)) in self._open:
            code = yield from self.unregister(holding, self.reader(key))
            if code == 200 and holding.last_position is not None and key not in self.unsure:
                # It had the registration: it was not stopped meanwhile, and has rolled back what it had noted.
                holding.last_position = holding.last_position._replace(is_unconfirmed=False)
        reader, first = self.reader(key), key not in self._seen
        self.unsure.add(key)
        answer = yield from self._ask(holding, reader, self._request(reader, holding, offset, first))
        self.unsure.discard(key)
        if holding.version != version:
            if key not in holding.all.by_key:
                yield from self.unregister(holding, reader)
            raise released(key)
        start: int = self._checked(holding, answer).currOffset
        self._seen.add(key)
        if moves or not holding.registration or start < holding.confirmed:
            is_new = first and self._plan.start_of(key) == "earliest"
            holding.fresh = offset == BootstrapOffset.EARLIEST or (offset == BootstrapOffset.STORED and is_new)
            holding.suspected_loss, holding.lost_to = None if offset < BootstrapOffset.STORED else start, 0
        else:  # what was in doubt before is so still
            holding.suspect_loss(start)
        holding.registration += 1
        holding.connection = yield ConnectionTo(holding.line.info.address)
        holding.read_ms = yield Now()
        holding.answered(start, answer.maxOffset, wall_ms=(yield WallClock()))
        holding.expected, holding.is_unconfirmed, holding.failures = start, False, 0
        holding.line.up = True
        return start

    def _checked(self, holding: Holding, answer: Any) -> Any:
        try:
            return checked(
                answer,
                f"connecting partition {holding.key} for group {self._plan.group} at broker {holding.line.info}",
                address=holding.line.info.address,
                partition=str(holding.key),
            )
        except PartitionOccupied as error:
            error.args = (f"{error}. With a timeout_ms, connect waits for it",)
            raise

    def _request(self, reader: Reader, holding: Holding, offset: int, first: bool) -> broker_pb2.RegisterRequestC2B:
        if offset >= 0 or offset == BootstrapOffset.EARLIEST:
            return reader.register(holding.key, max(offset, 0), filters=holding.filters)
        stored = _STATUS_OF_START[self._plan.start_of(holding.key)] if first else AT_MIN_IF_NEW
        status = AT_MAX if offset == BootstrapOffset.LATEST else stored
        return reader.register(holding.key, None, status=status, filters=holding.filters)


def released(key: PartitionKey) -> PartitionUnavailable:
    """The error of a connect."""
    return PartitionUnavailable(f"partition {key} was released during the connect", partition=str(key))
