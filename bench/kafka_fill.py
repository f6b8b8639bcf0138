"""Fills a topic of Kafka with confluent-kafka."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

__all__ = ["fill"]

_POLL_EACH: Final = 1_000
_FLUSH_SECONDS: Final = 120.0
_ANSWER_SECONDS: Final = 30.0
# Above any number of bytes that is sent here before the broker has taken them.
_QUEUE_KILOBYTES: Final = 262_144


def fill(bootstrap: str, topic: str, partitions: int, messages: int, body_bytes: int) -> float:
    """Send `messages` uncompressed messages, each with a body of its own, equally to the partitions of a new topic.

    Returns messages per second until the broker has acknowledged all of them. RuntimeError: it has not, or holds
    another number.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "none",
            "acks": "all",
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": _QUEUE_KILOBYTES,
        }
    )
    started = time.perf_counter()
    for number in range(messages):
        _produce(producer, topic, b"%0*d" % (body_bytes, number), number % partitions)
        if number % _POLL_EACH == 0:
            producer.poll(0)
    waiting = producer.flush(_FLUSH_SECONDS)
    seconds = time.perf_counter() - started
    if waiting:
        raise RuntimeError(f"Kafka did not acknowledge {waiting} messages within {_FLUSH_SECONDS:.0f} s")
    there = sum(_ends(bootstrap, topic, partitions))
    if there != messages:
        raise RuntimeError(f"topic {topic} holds {there} messages, {messages} were sent")
    return messages / seconds


def _produce(producer: Producer, topic: str, body: bytes, partition: int) -> None:
    deadline = time.monotonic() + _FLUSH_SECONDS
    while True:
        try:
            producer.produce(topic, body, partition=partition)
            return
        except BufferError:
            if time.monotonic() >= deadline:
                raise
            producer.poll(0.05)


def _ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Where each partition ends, which is its number of messages."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench_fill", "enable.auto.commit": False})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ANSWER_SECONDS)[1]
            for partition in range(partitions)
        ]
    finally:
        consumer.close()
