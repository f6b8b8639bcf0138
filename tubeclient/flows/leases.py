"""Keeps the partitions of a consumer at one broker: heartbeats, and the registration of void ones."""

from __future__ import annotations

import logging

from tubeclient.errors import (
    ClientClosed,
    PartitionOccupied,
    PartitionUnavailable,
    ProtocolError,
    TransportError,
    TubeError,
    status_error,
)
from tubeclient.flows.effects import ConnectionTo, Flow, Notify, Sleep, backoff_ms, call, checked
from tubeclient.flows.holding import BrokerLine, Holding, Phase
from tubeclient.flows.read_plan import BootstrapOffset
from tubeclient.flows.reader import LEASE_BEAT_MS, TAKEN, Reader
from tubeclient.flows.registrar import CHANGED, Registrar
from tubeclient.keys import PartitionKey, is_int32
from tubeclient.wire.methods import Method
from tubeclient.wire.strings import parse_subscription

_log = logging.getLogger(__name__)

_REGISTERED_PHASES = (Phase.IDLE, Phase.FETCHING, Phase.DELIVERED, Phase.COMMITTING)


def keep_leases(registrar: Registrar, line: BrokerLine) -> Flow[None]:
    """Every few seconds one heartbeat names all partitions on this broker; the answer says which are lost. Register
    void ones anew. Emits `Lost` for those that another client got. Ends when the consumer is closed.

    While the broker does not answer, it gets no other requests: this retries with growing waits, and then lets the
    others continue.
    """
    attempt = 0
    while not registrar.closed:
        well = line.up and not _void(registrar, line)
        yield Sleep(LEASE_BEAT_MS if well else backoff_ms(attempt, registrar.rng.random()), line.signal)
        try:
            yield from _beat(registrar, line)
            for holding in _void(registrar, line):
                yield from _rejoin(registrar, holding)
        except ClientClosed:
            return
        except TubeError as error:
            yield from registrar.line_down(line, error)
            attempt += 1
            continue
        attempt = attempt + 1 if _void(registrar, line) else 0
        if not line.up:
            line.up = True
            yield Notify(CHANGED)


def _void(registrar: Registrar, line: BrokerLine) -> list[Holding]:
    return [holding for holding in registrar.holdings.of_line(line, Phase.VOID) if not holding.leaving]


def _rejoin(registrar: Registrar, holding: Holding) -> Flow[None]:
    """Register a void partition again. Emits `Lost` if that fails for good; else it stays void."""
    if holding.phase is not Phase.VOID or registrar.closed:
        return
    try:
        offset = BootstrapOffset.LATEST if holding.jumps else BootstrapOffset.STORED
        yield from registrar.registrations.register(holding, offset, 0.0)
    except (TransportError, ClientClosed):
        holding.void()
        raise
    except PartitionUnavailable:
        return  # moved, or released meanwhile
    except TubeError as error:
        if error.retriable and not isinstance(error, PartitionOccupied):
            _log.info("could not take partition %s up again; trying again: %s", holding.key, error)
            holding.void()
        else:
            yield from registrar.lose(holding, error)
    yield Notify(CHANGED)


def _beat(registrar: Registrar, line: BrokerLine) -> Flow[None]:
    """Send a heartbeat for each client id, and take the partitions that are no longer ours as lapsed or lost."""
    holdings = registrar.holdings.of_line(line, *_REGISTERED_PHASES)
    registered = {holding.key: (holding, holding.registration) for holding in holdings}
    by_reader: dict[Reader, list[PartitionKey]] = {}
    for key in registered:
        by_reader.setdefault(registrar.registrations.reader(key), []).append(key)
    connection = yield ConnectionTo(line.info.address)
    context = f"keeping the partitions of group {registrar.plan.group} at broker {line.info}"
    codes: dict[PartitionKey, int] = {}
    for reader, keys in by_reader.items():
        request = reader.beat(line.info, keys, filtered=any(registrar.plan.filters.values()))
        answer = yield from call(line.info.address, Method.PARTITION_HEARTBEAT, request)
        checked(answer, context, address=line.info.address)
        for text in answer.failureInfo:
            code, _, subscription = text.partition(":")
            if not is_int32(code):
                raise ProtocolError(f"{text!r} does not describe a partition's state")
            codes[parse_subscription(subscription)[1]] = int(code)
    for key, (holding, registration) in registered.items():
        if holding.registration != registration or holding.phase not in _REGISTERED_PHASES:
            continue  # the answer is not about the present registration
        if key not in codes:
            holding.connection = connection
        elif codes[key] == TAKEN:
            error = status_error(TAKEN, "another client has it", context=f"holding {key}")
            yield from registrar.lose(holding, error)
        else:
            yield from registrar.lapsed(holding)
