"""Output of `tubeclient topics`: tables for people, JSON for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds, StoreKey
from tubeclient_cli.common.tables import number, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from tubeclient.admin import DeployedTopic, TopicOnBroker

__all__ = ["print_topic", "print_topics", "topic_json"]


def print_topics(console: Console, topics: Sequence[DeployedTopic]) -> None:
    if not topics:
        console.print("the cluster has no topics", soft_wrap=True)
        return
    numbers = ("brokers", "partitions", "max bytes")
    rows = [
        (
            topic.name,
            str(len(topic.on_brokers)),
            number(len(topic.partitions())),
            number(topic.max_message_bytes),
            _state(topic.on_brokers),
        )
        for topic in topics
    ]
    print_table(console, ("topic", *numbers, "state"), rows, keys=("topic",), right=numbers)


def print_topic(console: Console, topic: DeployedTopic, bounds: Mapping[StoreKey, StoreBounds]) -> None:
    console.print(f"{topic.name}: messages of at most {topic.max_message_bytes:,} bytes", soft_wrap=True)
    rows = [(str(on.broker), str(on.stores), str(on.partitions_per_store), _state([on])) for on in topic.on_brokers]
    print_table(console, ("broker", "stores", "partitions each", "state"), rows, keys=("broker",))
    numbers = ("first offset", "end", "messages, at most")
    stores = [
        (str(store), number(low), number(high), number(_messages(low, high)))
        for store, (low, high) in sorted(bounds.items())
    ]
    print_table(console, ("store", *numbers), stores, keys=("store",), right=numbers)


def topic_json(topic: DeployedTopic, bounds: Mapping[StoreKey, StoreBounds] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "topic": topic.name,
        "maxMessageBytes": topic.max_message_bytes,
        "partitions": len(topic.partitions()),
        "brokers": [
            {
                "broker": str(on.broker),
                "stores": on.stores,
                "partitionsPerStore": on.partitions_per_store,
                "acceptsPublish": on.accepts_publish,
                "acceptsSubscribe": on.accepts_subscribe,
                "loaded": on.is_loaded,
                "status": str(on.status),
            }
            for on in topic.on_brokers
        ],
    }
    if bounds is not None:
        found["stores"] = {
            str(store): {"firstOffset": low, "endOffset": high, "messagesAtMost": _messages(low, high)}
            for store, (low, high) in sorted(bounds.items())
        }
    return found


def _state(on_brokers: Sequence[TopicOnBroker]) -> str:
    """What is not as it should be, in words; "ready" if nothing is."""
    said = []
    for on in on_brokers:
        if str(on.status) != "ok":
            said.append(str(on.status))
        elif not on.is_loaded:
            said.append("not loaded yet")
        else:
            said += ["takes no messages"] * (not on.accepts_publish) + ["cannot be read"] * (not on.accepts_subscribe)
    return ", ".join(dict.fromkeys(said)) or "ready"


def _messages(low: int, high: int) -> int:
    return max(0, high - low) // INDEX_ENTRY_BYTES
