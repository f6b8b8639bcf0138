"""Where a store begins and ends, found by registering one of its partitions at 0.

The broker moves the registration to its first message and answers with both ends. This moves the group's position, so
it is done under a reader group, whose position means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tubeclient.errors import PartitionOccupied
from tubeclient.flows.authority import Authority
from tubeclient.flows.effects import Flow, call, checked
from tubeclient.flows.reader import Reader, in_first_free
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds
from tubeclient.wire.methods import Method

__all__ = ["probe_store"]


def probe_store(
    broker: BrokerInfo,
    partitions: Sequence[PartitionKey],
    reader_groups: Sequence[str],
    client_id: str,
    authority: Authority,
) -> Flow[StoreBounds]:
    """Ask `broker` for the bounds of the store of `partitions`. It uses the first partition that is free in one of the
    groups.
    """

    def register(key: PartitionKey, group: str) -> Flow[Any]:
        request = Reader(group, client_id, authority).register(key, 0)
        answer = yield from call(broker.address, Method.PARTITION_REGISTER, request)
        return checked(answer, f"asking broker {broker} for the offsets of {key} as group {group}")

    refusal: PartitionOccupied | None = None
    for key in partitions:
        try:
            group, answer = yield from in_first_free(reader_groups, partial(register, key))
        except PartitionOccupied as error:
            refusal = error
            continue
        unregister = Reader(group, client_id, authority).unregister(key)
        yield from call(broker.address, Method.PARTITION_REGISTER, unregister)
        return StoreBounds(answer.currOffset, answer.maxOffset)
    assert refusal is not None, "no partition was given"
    raise refusal
