"""What the brokers of an embedded cluster hold of the tests' topics, and brokers that are silent for a while."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import Record
from tubeclient import StoreKey
from tubeclient.wire.payload import decode_payload


def _everything(broker: Broker, topic: str, store_id: int) -> list[Record]:
    return broker.stores.get(topic, store_id).records(0, 1 << 40)


def stored(cluster: EmbeddedTubeMQ, topic: str = "clicks") -> dict[StoreKey, list[Record]]:
    """Every message, by its store."""
    found = {}
    for broker_id in cluster.broker_ids:
        for store_id in range(2 if topic == "clicks" else 1):
            look = partial(_everything, topic=topic, store_id=store_id)
            found[StoreKey(broker_id, topic, store_id)] = cluster.inspect(look, broker_id=broker_id)
    return found


def bodies(cluster: EmbeddedTubeMQ, topic: str = "clicks") -> Counter[bytes]:
    """How often each body is there."""
    records = (record for found in stored(cluster, topic).values() for record in found)
    return Counter(decode_payload(record.payload, record.flag)[0] for record in records)


@contextmanager
def silent(cluster: EmbeddedTubeMQ) -> Iterator[Callable[[], None]]:
    """No server of the cluster answers until what this gives is called. AssertionError if it never was."""
    begun, over = threading.Event(), threading.Event()

    def hold(_: Broker) -> bool:
        begun.set()
        return over.wait(20)

    with ThreadPoolExecutor(1) as thread:
        holding = thread.submit(cluster.inspect, hold)
        assert begun.wait(20)
        try:
            yield over.set
        except BaseException:
            over.set()
            raise
        assert holding.result(60), "nobody let the servers go on"
