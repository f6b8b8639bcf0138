"""Functions that send one message at once to Kafka or TubeMQ, and do not wait for the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

import confluent_kafka

from tubeclient import ClientSettings, Producer, SendResult

__all__ = ["kafka_sender", "tubemq_sender"]

_ANSWER_SECONDS: Final = 30.0


@contextmanager
def kafka_sender(bootstrap: str, topic: str) -> Iterator[Callable[[bytes], None]]:
    """A function that hands a body to confluent-kafka's producer, which sends it at once (linger 0).

    RuntimeError at the end: not all were acknowledged.
    """
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    # Connects now, and not with the first message.
    producer.list_topics(topic, timeout=_ANSWER_SECONDS)

    def send(body: bytes) -> None:
        producer.produce(topic, body)
        producer.poll(0)

    try:
        yield send
    finally:
        waiting = producer.flush(_ANSWER_SECONDS)
    if waiting:
        raise RuntimeError(f"Kafka did not acknowledge {waiting} messages within {_ANSWER_SECONDS:.0f} s")


@contextmanager
def tubemq_sender(settings: ClientSettings, topic: str) -> Iterator[Callable[[bytes], None]]:
    """The same for our producer. Raises its error at the end if a message was not stored."""
    sent: list[Future[SendResult]] = []
    with Producer(settings) as producer:
        producer.publish([topic])
        yield lambda body: sent.append(producer.submit(topic, body))
        for one in sent:
            one.result(_ANSWER_SECONDS)
