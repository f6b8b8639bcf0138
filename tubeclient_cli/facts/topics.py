"""The topics of a cluster, as `tubeclient topics` shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds, StoreKey
from tubeclient.names import near_names

if TYPE_CHECKING:
    from tubeclient.admin import DeployedTopic
    from tubeclient.settings import ClientSettings


def no_topic(name: str, there: Collection[str]) -> ConfigurationError:
    """The error for a topic that is not among those that are `there`; it names those that are spelled alike."""
    near = near_names([name], there)
    return ConfigurationError(
        f"the cluster has no topic {name}; {f'{near} ' if near else ''}`tubeclient topics list` shows all topics",
        condition="TOPIC_NOT_FOUND",
    )


@contextlib.contextmanager
def topics_known(settings: ClientSettings, names: Sequence[str]) -> Iterator[None]:
    """If the cluster lacks one of these topics, which ends the block, `no_topic` is raised in its stead."""
    from tubeclient.admin import Admin
    from tubeclient.admin.broker_webs import own_web
    from tubeclient.errors import TopicNotDeployed, TubeError

    try:
        yield
    except TopicNotDeployed:
        there: list[str] = []
        with contextlib.suppress(TubeError):
            there = Admin(own_web(settings)).topic_names()
        raise no_topic(next((name for name in names if name not in there), names[0]), there) from None


def topic_json(topic: DeployedTopic, bounds: Mapping[StoreKey, StoreBounds] | None = None) -> dict[str, Any]:
    """A topic, with its stores where `bounds` has those of its topics."""
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
        found["stores"] = [
            {
                "store": str(store),
                "firstOffset": low,
                "endOffset": high,
                "messagesAtMost": max(0, high - low) // INDEX_ENTRY_BYTES,
            }
            for store, (low, high) in sorted(bounds.items())
        ]
    return found
