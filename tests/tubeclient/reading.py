"""Consumers that read on their own threads while a test does other things."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import Self

from tubeclient import ClientBalanceConsumer, ClientSettings, PartitionKey, Producer, StalePack, TransportError

__all__ = ["Reader", "Writer", "counted"]


class _OnThread(ABC):
    """Works on a thread of its own until it is stopped, which raises what the work did."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.error = error

    @abstractmethod
    def _work(self) -> None: ...


class Reader(_OnThread):
    """Takes packs and confirms them until it is stopped. What was confirmed counts as read; what could not be may come
    again, to whoever reads then.
    """

    def __init__(self, consumer: ClientBalanceConsumer) -> None:
        super().__init__()
        self.consumer = consumer
        self.read: list[tuple[PartitionKey, bytes]] = []
        self.unsure: list[bytes] = []

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.read]

    @property
    def partitions(self) -> set[PartitionKey]:
        """Those that something was read of."""
        return {key for key, _ in self.read}

    def _work(self) -> None:
        while not self._over.is_set():
            delivery = self.consumer.get(timeout_ms=100)
            if delivery is None:
                continue
            try:
                self.consumer.confirm(delivery)
            except (StalePack, TransportError):
                self.unsure += delivery.bodies
                continue
            self.read += [(delivery.partition, body) for body in delivery.bodies]


class Writer(_OnThread):
    """Sends numbered messages, a few at a time, until it is stopped; what was sent is in `sent`."""

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        super().__init__()
        self._settings = settings
        self._topic = topic
        self.sent: list[bytes] = []

    def _work(self) -> None:
        with Producer(self._settings) as producer:
            producer.publish([self._topic])
            while not self._over.wait(0.01):
                batch = [b"%d" % number for number in range(len(self.sent), len(self.sent) + 20)]
                for future in producer.submit_many(self._topic, batch):
                    future.result(30)
                self.sent += batch


def counted(readers: Iterable[Reader]) -> Counter[bytes]:
    """How often each message was read by any of them."""
    return Counter(body for reader in readers for body in reader.bodies)
