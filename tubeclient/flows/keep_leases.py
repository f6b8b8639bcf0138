"""Keeps the leases of a consumer's partitions on one broker, and detects lost ones.

Every few seconds one heartbeat names them all; the answer says which are lost. While the broker does not answer, it
gets no other requests: this flow retries with growing waits, and then lets the others continue.
"""

from __future__ import annotations

from tubeclient.errors import ClientClosed, ProtocolError, TubeError, status_error
from tubeclient.flows.effects import ConnectionTo, Flow, Notify, Sleep, backoff_ms, call, checked
from tubeclient.flows.holding import BrokerLine, Holding, Lease, Phase
from tubeclient.flows.reader import LEASE_BEAT_MS, TAKEN, Reader
from tubeclient.flows.registrar import CHANGED, Registrar
from tubeclient.flows.registrations import Registrations
from tubeclient.keys import PartitionKey, is_int32
from tubeclient.wire.methods import Method
from tubeclient.wire.strings import parse_subscription


def keep_leases(registrations: Registrations, line: BrokerLine) -> Flow[None]:
    """Send heartbeats until no partition on this broker is held. Emits `Lost` for those that another client got."""
    attempt = 0
    while True:
        # Before the wait: a signal sent while this thread was starting is lost.
        if not registrations.holdings.of_line(line):
            line.kept = False
            return
        anew = any(_is_to_register_anew(registrations, holding) for holding in registrations.holdings.of_line(line))
        pause = LEASE_BEAT_MS if line.up and not anew else backoff_ms(attempt, registrations.registrar.rng.random())
        yield Sleep(pause, line.signal)
        held = {holding.key: (holding, holding.lease) for holding in registrations.holdings.of_line(line)}
        registered = [key for key, (holding, _) in held.items() if holding.is_registered]
        if not registered:
            continue
        connection = yield ConnectionTo(line.info.address)
        try:
            failures = yield from _beat(registrations.registrar, line, registered)
        except ClientClosed:
            line.kept = False
            return
        except TubeError as error:
            yield from registrations.registrar.line_down(line, error)
            attempt += 1
            continue
        attempt = 0
        for key in held.keys() - failures.keys():
            if _still_meant(registrations, *held[key]):
                held[key][0].lease = held[key][1]._replace(connection=connection)
        for key, code in failures.items():
            holding, lease = held.get(key, (None, None))
            if holding is not None and lease is not None and _still_meant(registrations, holding, lease):
                if code == TAKEN:
                    yield from registrations.lose(
                        holding, status_error(code, "another client has it", context=f"holding {key}")
                    )
                else:
                    yield from registrations.rejoin(holding)
        if not line.up:
            line.up = True
            yield Notify(CHANGED)
        for holding, lease in held.values():
            if _still_meant(registrations, holding, lease) and _is_to_register_anew(registrations, holding):
                yield from registrations.rejoin(holding)


def _still_meant(registrations: Registrations, holding: Holding, lease: Lease) -> bool:
    """Whether the answer is about the current registration."""
    return registrations.holdings.has(holding) and holding.is_under(lease)


def _is_to_register_anew(registrations: Registrations, holding: Holding) -> bool:
    """Whether it must be registered again before the next fetch, and no other thread does that."""
    idle = holding.phase is Phase.IDLE and not holding.committing
    return idle and holding.is_registered and holding.key in registrations.holdings.unanswered


def _beat(registrar: Registrar, line: BrokerLine, keys: list[PartitionKey]) -> Flow[dict[PartitionKey, int]]:
    """Send a heartbeat for each client id. Returns the code of each partition that is no longer ours."""
    plan = registrar.plan
    by_reader: dict[Reader, list[PartitionKey]] = {}
    for key in keys:
        by_reader.setdefault(registrar.reader(key), []).append(key)
    failures = {}
    for reader, of_reader in by_reader.items():
        request = reader.beat(line.info, of_reader, filtered=any(plan.filters.values()))
        answer = yield from call(line.info.address, Method.PARTITION_HEARTBEAT, request)
        checked(
            answer, f"keeping the partitions of group {plan.group} at broker {line.info}", address=line.info.address
        )
        for text in answer.failureInfo:
            code, _, subscription = text.partition(":")
            if not is_int32(code):
                raise ProtocolError(f"{text!r} does not describe a partition's state")
            failures[parse_subscription(subscription)[1]] = int(code)
    return failures
