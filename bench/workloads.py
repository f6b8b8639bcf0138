"""What is read: how many messages, of which length, in which layout of stores and partitions."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "GROWING_PARTITIONS",
    "GROWTH",
    "LAYOUTS",
    "PARTITIONS",
    "START",
    "WORKLOADS",
    "Layout",
    "Workload",
    "growing",
    "scaled",
    "topic_of",
]

_LEAST_MESSAGES: Final = 1_024


class Layout(NamedTuple):
    """How a topic lies on its one broker."""

    key: str
    title: str
    stores: int
    """Each with an index of its own."""
    partitions: int
    """Of each store."""


class Workload(NamedTuple):
    """A backlog, the same for all who read it."""

    key: str
    title: str
    messages: int
    body_bytes: int
    with_clients: bool
    """Whether Apache's Java client and embedded_tubemq are measured too."""


WORKLOADS: Final = (
    Workload("small", "2 M x 100 bytes", 2_000_000, 100, True),
    Workload("medium", "300 k x 1 KB", 300_000, 1_024, False),
    Workload("large", "20 k x 64 KB", 20_000, 65_536, False),
    Workload("few", "0.5 M x 100 bytes", 500_000, 100, False),
)

LAYOUTS: Final = (
    Layout("one_store", "8 partitions in one store", 1, 8),
    Layout("eight_stores", "8 stores of one partition", 8, 1),
)

PARTITIONS: Final = 8
"""Of a topic, in either layout, and on Kafka."""


START: Final = Workload("start", "8 000 x 100 bytes", 8_000, 100, False)
"""Small, so that the first row comes soon."""

GROWING_PARTITIONS: Final = (8, 32, 128)


def growing(partitions: int, *, in_stores: bool) -> Layout:
    """So many partitions, each in a store of its own or all in one."""
    if in_stores:
        return Layout(f"stores_{partitions}", f"{partitions} stores of one partition", partitions, 1)
    return Layout(f"partitions_{partitions}", f"{partitions} partitions in one store", 1, partitions)


GROWTH: Final = Workload("growth", "1 M x 100 bytes", 1_000_000, 100, False)
"""Divided among more and more partitions."""


def scaled(workload: Workload, scale: float) -> Workload:
    """The same with a fraction of the messages. All eight partitions have equally many."""
    wanted = max(_LEAST_MESSAGES, round(workload.messages * scale))
    return workload._replace(messages=wanted - wanted % PARTITIONS)


def topic_of(workload: Workload, layout: Layout) -> str:
    """The topic's name on TubeMQ."""
    return f"{workload.key}_{layout.key}"
