"""Topics on one broker: all that are measured are."""

from __future__ import annotations

from tubeclient import ClientSettings
from tubeclient.group import fetch_view
from tubeclient.keys import PartitionKey

__all__ = ["partitions_on_one_broker"]


def partitions_on_one_broker(settings: ClientSettings, topic: str) -> tuple[str, list[PartitionKey]]:
    """The broker's address and the topic's partitions. RuntimeError: they lie on several brokers, or on none."""
    view = fetch_view(settings, [topic], ["one_broker"])
    keys = view.partitions()
    addresses = {view.broker_of(key).address for key in keys}
    if len(addresses) != 1:
        raise RuntimeError(f"{topic} is to lie on one broker, not on {sorted(addresses)}")
    return addresses.pop(), list(keys)
