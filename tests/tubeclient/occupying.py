"""Another client that reads a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tubeclient import ClientSettings, PartitionKey
from tubeclient.flows.effects import call, checked
from tubeclient.flows.reader import REGISTER, UNREGISTER
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2


@contextmanager
def occupy(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, key: PartitionKey, groups: Sequence[str], *, offset: int = 0
) -> Iterator[None]:
    """Own a partition in all these groups, at `offset`, for the length of the block."""
    pool = ConnectionPool(settings)
    runner = FlowRunner(pool)
    address = cluster.broker_addresses[key.broker_id]
    requests = [
        broker_pb2.RegisterRequestC2B(
            opType=REGISTER,
            clientId="somebody-else",
            groupName=group,
            topicName=key.topic,
            partitionId=key.partition_id,
            readStatus=0,
            currOffset=offset,
        )
        for group in groups
    ]
    try:
        for request in requests:
            checked(runner.run(call(address, Method.PARTITION_REGISTER, request)), "occupying")
        yield
        for request in requests:
            request.opType = UNREGISTER
            assert runner.run(call(address, Method.PARTITION_REGISTER, request)).errCode == 200
    finally:
        pool.close()
