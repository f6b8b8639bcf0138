"""A cluster of brokers that are books only, in virtual time: they tell how far their stores reach, as a broker's web
port does, and hold no message. The masters are those of the simulation.

All of it runs in one thread, with the bytes of the wire. So what the planner of a query costs can be measured for more
brokers than a machine could hold.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from embedded_tubemq import TopicConfig
from embedded_tubemq.common.catalogue import BrokerState
from tests.simulation.servers import BROKER_PORT, MASTER_WEB_PORT
from tests.simulation.world import World
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo
from tubeclient.wire.web_json import write_json

__all__ = ["BookCluster", "Shape"]

_BOOK_PORT: Final = 8081
_END_MARK: Final = 1_234_567_890_123


class Shape(NamedTuple):
    """How large a cluster is. Every topic lies on every broker."""

    brokers: int
    topics: int
    stores: int
    """Of a topic on a broker."""
    partitions: int
    """Of a store."""
    rows_a_second: int
    """Of all together."""

    @property
    def all_stores(self) -> int:
        return self.brokers * self.topics * self.stores

    @property
    def all_partitions(self) -> int:
        return self.all_stores * self.partitions

    @property
    def topic_names(self) -> list[str]:
        return [f"scale{number}" for number in range(self.topics)]


class _Book:
    """One broker, as `tests.simulation.network.Server`. All its stores end at the same offset."""

    up = True
    life = 0

    def __init__(self, cluster: BookCluster, host: str, topics: Sequence[TopicConfig]) -> None:
        self.host = host
        self._cluster = cluster
        data = []
        for topic in topics:
            items = [
                {"partitionId": one, "offsetMin": 0, "offsetMax": _END_MARK, "dataMin": 0, "dataMax": _END_MARK}
                for one in topic.partition_ids()
            ]
            data.append({"topicName": topic.name, "offsetInfo": items, "itemCount": len(items)})
        answer = {"result": True, "errCode": 0, "errMsg": "Success!", "dataSet": data, "dataCount": len(data)}
        self._template = bytes(write_json(answer))

    def resume(self, action: Any) -> None:
        action()

    def answer(self, stream: bytes, peer: str) -> bytes | None:
        raise AssertionError("a book takes no request of the binary protocol")

    def web(self, path: str, values: dict[str, str]) -> bytes:
        began = time.process_time()
        assert values["method"] == "admin_query_pubinfo", values
        end = self._cluster.end_of_stores()
        answer = self._template.replace(b"%d" % _END_MARK, b"%d" % end)
        self._cluster.note("books", time.process_time() - began)
        return answer


class BookCluster:
    """The world with its masters and books, below `folder`. The stand-ins of the simulation must be installed."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.shape = shape
        self.world = World(1, folder, 0)
        self.calls: Counter[str] = Counter()
        """Answers of masters and books."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """CPU time of these answers: not the planner's."""
        topics = [TopicConfig(name, shape.stores, shape.partitions) for name in shape.topic_names]
        for topic in topics:
            self.world.cluster.put_topic(topic)
        for number in range(1, shape.brokers + 1):
            book = _Book(self, f"b{number}", topics)
            self.world.network.webs[f"{book.host}:{_BOOK_PORT}"] = book
            info = BrokerInfo(number, book.host, BROKER_PORT)
            self.world.cluster.catalogue.put_broker(BrokerState(info, _BOOK_PORT, True))
        for master in self.world.cluster.masters:
            self._count(master)

    def options(self, group: str, source_count: int) -> dict[str, str]:
        """The options of a query that reads all topics."""
        return {
            "masterServers": self.world.cluster.addresses,
            "masterWebPort": str(MASTER_WEB_PORT),
            "consumerGroup": group,
            "subscribe": ",".join(self.shape.topic_names),
            "startingOffsets": "latest",
            "sourceCount": str(source_count),
        }

    def end_of_stores(self) -> int:
        """Where all stores end now."""
        entries = int((self.world.hub.now + 1) * self.shape.rows_a_second / self.shape.all_stores)
        return entries * INDEX_ENTRY_BYTES

    def note(self, who: str, cpu_seconds: float) -> None:
        """Count an answer."""
        self.calls[who] += 1
        self.seconds[who] += cpu_seconds

    def servers_seconds(self) -> float:
        """CPU time of all answers so far."""
        return sum(self.seconds.values())

    def _count(self, master: Any) -> None:
        answer = master.answer

        def counted(stream: bytes, peer: str) -> bytes | None:
            began = time.process_time()
            try:
                found: bytes | None = answer(stream, peer)
                return found
            finally:
                self.note("master", time.process_time() - began)

        master.answer = counted
