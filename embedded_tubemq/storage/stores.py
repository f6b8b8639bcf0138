"""All stores of one broker, opened on first use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from embedded_tubemq.common.catalogue import Catalogue
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.refusal import Refusal
from embedded_tubemq.storage.store import Appended, NewMessage, Store
from tubeclient.keys import MAX_STORE_PARTITIONS

__all__ = ["StoreDirectory"]


class StoreDirectory:
    """The stores below `folder`: one sub-folder per topic, and in it one per store id."""

    def __init__(self, folder: Path, catalogue: Catalogue, clock: Callable[[], int]) -> None:
        self._folder = folder
        self._catalogue = catalogue
        self._clock = clock
        self._open: dict[tuple[str, int], Store] = {}

    def of_partition(self, topic: str, partition_id: int) -> Store:
        """The store that holds a partition.

        403 if the broker does not have the topic, 500 if the topic does not have the partition.
        """
        config = self._catalogue.topic(topic)
        if config is None:
            raise Refusal(Code.FORBIDDEN, f"topic {topic} does not exist on this broker")
        if not config.has_partition(partition_id):
            # TubeMQ's text: clients recognise a permanent refusal by it.
            raise Refusal(
                Code.INTERNAL_SERVER_ERROR,
                f"Wrong partition value {partition_id},valid partitions in (0,{config.partitions - 1})",
            )
        return self.get(topic, partition_id // MAX_STORE_PARTITIONS)

    def get(self, topic: str, store_id: int) -> Store:
        store = self._open.get((topic, store_id))
        if store is None:
            store = self._open[topic, store_id] = Store(self._folder / topic / str(store_id), self._clock())
        return store

    def append_all(self, topic: str, messages: Iterable[NewMessage], now_ms: int) -> list[Appended]:
        """Append messages of any partitions of a topic, with few writes; keeps the order within each store."""
        all_messages = list(messages)
        by_store: dict[int, list[NewMessage]] = {}
        for message in all_messages:
            by_store.setdefault(message.partition_id // MAX_STORE_PARTITIONS, []).append(message)
        done = {
            store_id: iter(self.of_partition(topic, part[0].partition_id).append_all(part, now_ms))
            for store_id, part in by_store.items()
        }
        return [next(done[message.partition_id // MAX_STORE_PARTITIONS]) for message in all_messages]

    def existing(self, topic: str, store_id: int) -> Store | None:
        """The store if it was ever used."""
        if (topic, store_id) in self._open or (self._folder / topic / str(store_id)).is_dir():
            return self.get(topic, store_id)
        return None

    def delete_topic(self, topic: str) -> None:
        for name, store_id in [key for key in self._open if key[0] == topic]:
            self._open.pop((name, store_id)).close()
        shutil.rmtree(self._folder / topic, ignore_errors=True)

    def close(self) -> None:
        for store in self._open.values():
            store.close()
        self._open.clear()
