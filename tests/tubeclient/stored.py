"""What the brokers of an embedded cluster hold of the tests' topics, and brokers that are silent for a while."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import Pack, Store
from tubeclient import StoreKey
from tubeclient.wire.payload import decode_payload
from tubeclient.wire.proto import broker_pb2


class Record(NamedTuple):
    """A message, as its store has it."""

    partition_id: int
    index_offset: int  # bytes
    tag_hash: int  # -1 without a tag
    message_id: int
    flag: int
    payload: bytes


def records_of(store: Store, start: int = 0, end: int = 1 << 40) -> list[Record]:
    """The messages whose offsets are in a range, without those that expired or that a disk lost."""
    entries = store.entries(start, end)
    there = ((entries["position"] >= store.data_min) & (entries["size"] > 0)).nonzero()[0]
    kept = entries[there]
    starts = kept["position"].astype(int)
    pack = Pack(starts, starts + kept["size"], len(entries), None)
    messages = broker_pb2.GetMessageResponseB2C.FromString(_AROUND + store.wire_bytes(pack)).messages
    return [
        Record(partition, start + number * 28, tag_hash, one.messageId, one.flag, one.payLoadData)
        for partition, tag_hash, number, one in zip(
            kept["partition"].tolist(), kept["tag_hash"].tolist(), there.tolist(), messages, strict=True
        )
    ]


_AROUND = broker_pb2.GetMessageResponseB2C(success=True, errCode=200, errMsg="").SerializeToString()


def _everything(broker: Broker, topic: str, store_id: int) -> list[Record]:
    return records_of(broker.stores.get(topic, store_id))


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
