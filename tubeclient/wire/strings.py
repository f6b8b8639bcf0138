"""The formats of TubeMQ's string fields: brokers, topic layouts, filters, subscriptions.

For the default port masters write a single blank. Two lists have stores and partitions in opposite order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address

from tubeclient.errors import ProtocolError
from tubeclient.keys import MAX_STORE_PARTITIONS, MAX_STORES, BrokerInfo, PartitionKey, TopicLayout, is_int32

DEFAULT_MASTER_PORT = 8715
DEFAULT_MASTER_TLS_PORT = 8716
DEFAULT_MASTER_WEB_PORT = 8080
DEFAULT_BROKER_PORT = 8123
DEFAULT_BROKER_TLS_PORT = 8124

_MAX_LISTED = 1_000_000
"""Limit for the partitions of a topic on one broker: a layout is expanded into a list, so a damaged number could use up
all memory."""


def parse_broker(text: str, *, tls: bool = False) -> BrokerInfo:
    """Parse "brokerId:host:port"; a blank port means the default. An IPv6 address may be in brackets."""
    broker_id, _, place = text.partition(":")
    host, _, port = place.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host.strip()
    try:
        if not is_int32(broker_id) or not host or (":" in host and not IPv6Address(host)):
            raise ValueError
    except ValueError:
        raise ProtocolError(f"{text!r} does not describe a broker") from None
    port = port.strip() or str(DEFAULT_BROKER_TLS_PORT if tls else DEFAULT_BROKER_PORT)
    if not is_int32(port) or not 0 < int(port) < 65536:
        raise ProtocolError(f"{text!r} does not describe a broker: its port is not a number from 1 to 65535")
    return BrokerInfo(int(broker_id), host, int(port))


def encode_consumer_layouts(layouts: Iterable[TopicLayout]) -> list[str]:
    """Write "topic#brokerId:stores:partitionsPerStore:status,..." for each topic (client-balance metadata)."""
    return _by_topic(
        (layout.topic, f"{layout.broker_id}:{layout.stores}:{layout.partitions_per_store}:{int(layout.subscribable)}")
        for layout in layouts
    )


def parse_consumer_layouts(texts: Iterable[str]) -> list[TopicLayout]:
    """Parse the texts of `encode_consumer_layouts`."""
    layouts = []
    for text in texts:
        topic, entries = _topic_entries(text)
        for broker_id, stores, partitions, status in _numbers(text, entries, 4):
            layouts.append(_layout(text, topic, broker_id, stores, partitions, status == 1))
    return layouts


def encode_producer_layouts(layouts: Iterable[TopicLayout], max_message_bytes: int | None = None) -> list[str]:
    """Write "topic#brokerId:partitionsPerStore:stores,...#maxMessageBytes" for each topic (producer heartbeat)."""
    limit = "" if max_message_bytes is None else f"#{max_message_bytes}"
    texts = ((layout.topic, f"{layout.broker_id}:{layout.partitions_per_store}:{layout.stores}") for layout in layouts)
    return _by_topic(texts, limit)


def parse_producer_layouts(texts: Iterable[str]) -> tuple[list[TopicLayout], dict[str, int]]:
    """Parse the texts of `encode_producer_layouts`: the layouts, and the largest message in bytes per topic, where
    given."""
    layouts: list[TopicLayout] = []
    limits: dict[str, int] = {}
    for text in texts:
        topic, entries = _topic_entries(text)
        limit = text.split("#")[2].strip() if text.count("#") >= 2 else ""
        if is_int32(limit):
            limits[topic] = int(limit)
        for broker_id, partitions, stores in _numbers(text, entries, 3):
            layouts.append(_layout(text, topic, broker_id, stores, partitions, True))
    return layouts, limits


def encode_filters(filters: Mapping[str, Iterable[str]]) -> list[str]:
    """Write "topic#tag,tag" for each topic that has tags."""
    return [f"{topic}#{','.join(sorted(tags))}" for topic, tags in sorted(filters.items()) if tags]


def parse_filters(texts: Iterable[str]) -> dict[str, frozenset[str]]:
    """Parse the texts of `encode_filters`."""
    filters = {}
    for text in texts:
        topic, entries = _topic_entries(text)
        filters[topic] = frozenset(tag.strip() for tag in entries.split(",") if tag.strip())
    return filters


def encode_report(partitions: Iterable[PartitionKey]) -> list[str]:
    """Write "topic#brokerId:partitionId,..." for each topic (ClientSubRepInfo.partSubInfo)."""
    return _by_topic((key.topic, f"{key.broker_id}:{key.partition_id}") for key in sorted(partitions))


def parse_report(texts: Iterable[str]) -> list[PartitionKey]:
    """Parse the texts of `encode_report`."""
    keys = []
    for text in texts:
        topic, entries = _topic_entries(text)
        keys += [PartitionKey(broker_id, topic, partition_id) for broker_id, partition_id in _numbers(text, entries, 2)]
    return keys


def encode_subscription(broker: BrokerInfo, partition: PartitionKey) -> str:
    """Write "brokerId:host:port#topic:partitionId" (partition heartbeats and their failures)."""
    return f"{broker}#{partition.topic}:{partition.partition_id}"


def parse_subscription(text: str) -> tuple[BrokerInfo, PartitionKey]:
    """Parse the text of `encode_subscription`; fields after the partition id are ignored."""
    broker_text, mark, rest = text.partition("#")
    fields = rest.split(":")
    if not mark or len(fields) < 2 or not fields[0].strip() or not is_int32(fields[1]):
        raise ProtocolError(f"{text!r} does not describe a partition of a broker")
    broker = parse_broker(broker_text)
    return broker, PartitionKey(broker.broker_id, fields[0].strip(), int(fields[1]))


def _by_topic(entries: Iterable[tuple[str, str]], end: str = "") -> list[str]:
    by_topic: dict[str, list[str]] = {}
    for topic, entry in entries:
        by_topic.setdefault(topic, []).append(entry)
    return [f"{topic}#{','.join(of_topic)}{end}" for topic, of_topic in by_topic.items()]


def _layout(text: str, topic: str, broker_id: int, stores: int, partitions: int, subscribable: bool) -> TopicLayout:
    if partitions > MAX_STORE_PARTITIONS:  # their ids would reach into the next store
        raise ProtocolError(f"{text!r} gives a store {partitions} partitions; {MAX_STORE_PARTITIONS} is the most")
    if stores > MAX_STORES or stores * partitions > _MAX_LISTED:
        raise ProtocolError(
            f"{text!r} gives a broker {stores} stores of {partitions} partitions each; "
            f"more than {_MAX_LISTED} partitions count as damaged"
        )
    return TopicLayout(topic, broker_id, stores, partitions, subscribable)


def _topic_entries(text: str) -> tuple[str, str]:
    parts = text.split("#")
    if len(parts) < 2 or not parts[0].strip():
        raise ProtocolError(f"{text!r} does not describe a topic")
    return parts[0].strip(), parts[1]


def _numbers(text: str, entries: str, count: int) -> Iterable[list[int]]:
    for entry in entries.split(","):
        if not entry.strip():
            continue
        numbers = entry.split(":")
        if len(numbers) < count or not all(map(is_int32, numbers[:count])):
            raise ProtocolError(f"{entry!r} in {text!r} is not {count} numbers")
        yield [int(number) for number in numbers[:count]]
