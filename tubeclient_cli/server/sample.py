"""Messages for a first try: what `tubeclient server --sample` puts into empty topics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tubeclient.keys import MAX_STORE_PARTITIONS
from tubeclient.wire.payload import encode_attributes, encode_payload

__all__ = ["load_sample"]

_PAGES = ("home", "search", "product", "basket", "checkout")


def load_sample(cluster: EmbeddedTubeMQ, topics: Sequence[TopicConfig], count: int) -> None:
    """Put `count` clicks, as JSON with the present time, into each of these topics that has no message yet: to all
    partitions of all brokers in turn."""
    for topic in topics if count else ():
        stores = sorted({partition // MAX_STORE_PARTITIONS for partition in topic.partition_ids()})
        places = [(broker, store) for broker in cluster.broker_ids for store in stores]
        if any(cluster.bounds(topic.name, store_id=store, broker_id=broker).max_offset for broker, store in places):
            continue
        attributes = encode_attributes({}, time=f"{datetime.now(UTC):%Y%m%d%H%M}")
        partitions = [(broker, partition) for partition in topic.partition_ids() for broker in cluster.broker_ids]
        for broker in cluster.broker_ids:
            messages = []
            for number in range(count):
                its_broker, partition = partitions[number % len(partitions)]
                if its_broker == broker:
                    click = {"id": number, "user": f"u{number * 7 % 50}", "page": _PAGES[number * 3 % len(_PAGES)]}
                    messages.append(NewMessage(partition, *encode_payload(json.dumps(click).encode(), attributes)))
            cluster.load(topic.name, messages, broker_id=broker)
