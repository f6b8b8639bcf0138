"""What Apache's Java clients do while they are recorded, step by step.

`stranger.py` has what no Java client can be told to do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import Final

from tests.apache.java_client import JavaBalanceConsumer, JavaClientError, JavaPack, JavaProducer
from tests.apache.java_gateway import JavaVM
from tests.apache.server import TopicSpec
from tests.recorder.proxy import Recorder
from tests.recorder.stranger import Stranger
from tubeclient.keys import INDEX_ENTRY_BYTES

__all__ = ["READ_FROM_MEMORY", "RECORDED", "STEPS", "perform", "topics_of"]

SILENCE_SECONDS: Final = 45.0
"""A lease of 30 s ends within it."""

FLUSH_SECONDS: Final = 16.0
"""Within it a broker writes what was sent to its files: all readers read it from there, filtered ones see it."""

READ_FROM_MEMORY: Final = frozenset({"fetch_from_memory"})
"""The steps that read what the broker has not written yet. Packs have other borders there than in files."""

RECORDED: Final = "recorded"
"""The first of the topics of the kept recording."""

_SILENT_MS: Final = 600_000
"""Time between the heartbeats of a client that is to lose its lease."""

_TAGS: Final = ("red", "green", "blue")
_TIME: Final = "202611211030"
_PARTITIONS: Final = 8
_SENT_EACH: Final = 6
_SENDING_SECONDS: Final = 90.0
_TAGGED: Final = 12


def topics_of(name: str) -> list[TopicSpec]:
    """The topics that a recording needs, empty: one with several partitions for an index, one for filters, and one
    whose messages stay in memory for 20 s."""
    return [
        TopicSpec(name, num_stores=2, num_partitions=2, properties={"memCacheFlushIntvl": 4000}),
        TopicSpec(f"{name}_tags", num_stores=1, num_partitions=1, properties={"memCacheFlushIntvl": 4000}),
        TopicSpec(f"{name}_fresh", num_stores=1, num_partitions=1),
    ]


class Clients:
    """The Java clients of one step; all are closed at its end."""

    def __init__(self, recorder: Recorder, java: JavaVM, topic: str, closing_all: ExitStack) -> None:
        self.recorder, self.topic, self.tags = recorder, topic, f"{topic}_tags"
        self._java = java
        self._closing = closing_all

    def producer(self, *topics: str) -> JavaProducer:
        made = self._closing.enter_context(closing(JavaProducer(self._java, self.recorder.master_address)))
        return made.publish(topics)

    def consumer(self, group: str, *, from_first: bool = True, heartbeat_ms: int | None = None) -> JavaBalanceConsumer:
        master = self.recorder.master_address
        made = JavaBalanceConsumer(self._java, master, group, from_first=from_first, heartbeat_ms=heartbeat_ms)
        return self._closing.enter_context(closing(made))

    def reader(self, group: str, **options: int) -> JavaBalanceConsumer:
        """A consumer that has started, and knows the partitions."""
        started = self.consumer(group, **options).start({self.topic: []})  # type: ignore[arg-type]
        started.await_partitions(_PARTITIONS)
        return started

    def key(self, broker_id: int = 1, partition_id: int = 0) -> str:
        return f"{broker_id}:{self.topic}:{partition_id}"


def produce(clients: Clients) -> None:
    """Messages of all kinds into each partition, and a while for the broker to write them.

    Java's producer takes the partitions in turn, but leaves out a broker that it takes for a bad one.
    """
    producer = clients.producer(clients.topic, clients.tags)
    sent: Counter[str] = Counter()
    deadline = time.monotonic() + _SENDING_SECONDS
    while len(sent) < _PARTITIONS or min(sent.values()) < _SENT_EACH:
        assert time.monotonic() < deadline, f"Java's producer sent to some partitions only: {sent}"
        number = sent.total()
        body = f"message {number}".encode()
        attributes = {"number": str(number), "text": "grün"} if number % 3 else None
        tag, msg_time = (_TAGS[number % 3], _TIME) if number % 2 else (None, None)
        sent[producer.send(clients.topic, body, attributes, tag, msg_time).partition_key] += 1
        if number >= _PARTITIONS * _SENT_EACH:
            time.sleep(0.1)
    for number in range(_TAGGED):
        producer.send(clients.tags, f"tagged {number}".encode(), None, _TAGS[number % 3], _TIME)
    time.sleep(FLUSH_SECONDS)


def register(clients: Clients) -> None:
    """Registers at the master, in groups that count their clients; clients that do not fit are refused."""
    group = f"{clients.topic}_counted"
    topics: dict[str, list[str]] = {clients.topic: []}
    clients.consumer(group).start(topics, source_count=2, node_id=0).await_partitions(_PARTITIONS)
    clients.consumer(group).start(topics, source_count=2, node_id=1).await_partitions(_PARTITIONS)
    refused: list[tuple[dict[str, list[str]], int, int]] = [
        (topics, 3, 2),
        (topics, 2, 0),
        ({clients.topic: [], clients.tags: []}, 2, 1),
        ({clients.topic: ["red"]}, 2, 1),
        ({"nowhere": []}, 2, 1),
    ]
    for wanted, source_count, node_id in refused:
        with suppress(JavaClientError):
            clients.consumer(group).start(wanted, source_count, node_id)
            raise AssertionError(f"{wanted} by {node_id} of {source_count} was not refused")
    with suppress(JavaClientError):
        clients.producer("nowhere")
        raise AssertionError("an unknown topic was not refused")


def metadata(clients: Clients) -> None:
    """Asks for the partitions until the master has nothing new, with one topic and with two; heartbeats go on."""
    one = clients.consumer(f"{clients.topic}_metadata", heartbeat_ms=1_000).start({clients.topic: []})
    two = clients.consumer(f"{clients.topic}_metadata_2").start({clients.topic: [], clients.tags: []})
    one.await_partitions(_PARTITIONS)
    two.await_partitions(_PARTITIONS + 2)
    one.connect(clients.key())
    one.connect(clients.key(2))
    time.sleep(2.5)
    one.await_partitions(_PARTITIONS)


def fetch(clients: Clients) -> None:
    """Reads all partitions to the end, and beyond."""
    reader = clients.reader(f"{clients.topic}_all")
    for key in reader.await_partitions(_PARTITIONS):
        reader.connect(key)
    reader.drain(_PARTITIONS * _SENT_EACH)
    while (pack := reader.get_message()) is not None:
        reader.confirm(pack.confirm_context)


def fetch_from_memory(clients: Clients) -> None:
    """Reads at once what was sent just now."""
    fresh = f"{clients.topic}_fresh"
    producer = clients.producer(fresh)
    for number in range(6):
        producer.send(fresh, f"fresh {number}".encode() * (1_200 if number == 5 else 1))  # larger than a frame's block
    reader = clients.consumer(fresh).start({fresh: []})
    for key in reader.await_partitions(2):
        reader.connect(key)
    reader.drain(6)
    assert reader.get_message() is None


def confirm(clients: Clients) -> None:
    """Confirms a pack; the next client of the group goes on behind it."""
    for _ in range(2):
        reader = clients.reader(f"{clients.topic}_confirm")
        reader.connect(clients.key())
        reader.confirm(reader.next_pack().confirm_context)
        reader.disconnect(clients.key())


def rollback(clients: Clients) -> None:
    """Gives a pack back and gets it again."""
    reader = clients.reader(f"{clients.topic}_rollback")
    reader.connect(clients.key(2))
    first = reader.next_pack()
    reader.confirm(first.confirm_context, consumed=False)
    again = reader.next_pack()
    assert _same(first, again)
    reader.confirm(again.confirm_context)


def occupied(clients: Clients) -> None:
    """Wants a partition that another client of the group reads, and gets it when that lets go."""
    group = f"{clients.topic}_occupied"
    holder = clients.reader(group)
    holder.connect(clients.key())
    refused, later = clients.reader(group), clients.reader(group)
    with suppress(JavaClientError):
        refused.connect(clients.key())
        raise AssertionError("a partition that is taken was given")
    holder.disconnect(clients.key())
    later.connect(clients.key())
    later.confirm(later.next_pack().confirm_context)


def seek(clients: Clients) -> None:
    """Connects at offsets: a message's, one between messages, behind the end, and none in a group that starts there."""
    group = f"{clients.topic}_seek"
    for offset in (INDEX_ENTRY_BYTES * 3, INDEX_ENTRY_BYTES * 4 + 1, INDEX_ENTRY_BYTES * 1_000, 0):
        reader = clients.reader(group)
        reader.connect(clients.key(), offset)
        pack = reader.get_message()
        if pack is not None:
            reader.confirm(pack.confirm_context)
        reader.close()
    latest = clients.reader(f"{group}_latest", from_first=False)
    latest.connect(clients.key(2, 10_000))
    latest.get_message()


def lease_loss(clients: Clients) -> None:
    """Is silent for longer than its leases at master and broker; another client gets the pack that was out."""
    group = f"{clients.topic}_lease"
    silent = clients.reader(group, heartbeat_ms=_SILENT_MS)
    silent.connect(clients.key())
    out = silent.next_pack()
    time.sleep(SILENCE_SECONDS)
    heir = clients.reader(group)
    heir.connect(clients.key())
    again = heir.next_pack()
    assert _same(out, again)
    with suppress(JavaClientError):
        silent.confirm(out.confirm_context)
    heir.confirm(again.confirm_context)
    with suppress(JavaClientError):
        silent.get_message()
    with suppress(JavaClientError):
        silent.connect(clients.key(2))


def filters(clients: Clients) -> None:
    """Reads by tags: one, two, and one that no message has."""
    for number, tags in enumerate((["green"], ["blue", "red"], ["white"])):
        reader = clients.consumer(f"{clients.topic}_filters_{number}").start({clients.tags: tags})
        for key in reader.await_partitions(2):
            reader.connect(key)
        reader.drain(len({*tags} & {*_TAGS}) * _TAGGED // len(_TAGS))
        reader.get_message()


def close(clients: Clients) -> None:
    """Closes with a pack that is out; the next client gets it again."""
    group = f"{clients.topic}_close"
    first = clients.reader(group)
    first.connect(clients.key())
    out = first.next_pack()
    first.close()
    second = clients.reader(group)
    second.connect(clients.key())
    assert _same(out, second.next_pack())


def stranger(clients: Clients) -> None:
    """What only a client can do that knows the protocol alone."""
    holder = clients.reader(f"{clients.topic}_stranger")
    holder.connect(clients.key())
    with Stranger(clients.recorder, clients.topic, f"{clients.topic}_stranger") as plain:
        plain.ask_everything()


STEPS: Final[tuple[Callable[[Clients], None], ...]] = (
    produce,
    register,
    metadata,
    fetch,
    fetch_from_memory,
    confirm,
    rollback,
    occupied,
    seek,
    lease_loss,
    filters,
    close,
    stranger,
)


def perform(recorder: Recorder, java: JavaVM, topic: str) -> None:
    """Do it all, on the topics of `topics_of(topic)`."""
    for step in STEPS:
        recorder.step = step.__name__
        with ExitStack() as closing_all:
            step(Clients(recorder, java, topic, closing_all))


def _same(one: JavaPack, other: JavaPack) -> bool:
    return (one.partition_key, one.messages, one.curr_offset) == (
        other.partition_key,
        other.messages,
        other.curr_offset,
    )
