"""What a consumer says of its partitions: assigned, about to go, lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of, take
from tubeclient import ClientBalanceConsumer, Delivery, PartitionKey

KEY, OTHER = partition_of("callbacks"), partition_of("callbacks", 2)


class Witness:
    """Notes what it is told, and then does `on_revoked`."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.on_revoked: Callable[[PartitionKey], object] = lambda key: None

    @property
    def options(self) -> dict[str, Any]:
        return {
            "on_assigned": lambda key, offset: self.heard.append(("assigned", key, offset)),
            "on_revoked": self._revoked,
            "on_lost": lambda key, error: self.heard.append(("lost", key, type(error))),
        }

    def _revoked(self, key: PartitionKey) -> None:
        self.heard.append(("revoked", key))
        self.on_revoked(key)


@pytest.fixture
def witness() -> Witness:
    return Witness()


def test_partitions_come_and_go(tube: Cluster, consumer_of: MakeConsumer, witness: Witness) -> None:
    [offset] = tube.put(KEY, [b"come and go"])
    consumer = consumer_of("callbacks_all", ["callbacks"], **witness.options)
    consumer.connect(KEY, offset)
    consumer.connect(OTHER)
    consumer.connect(KEY, offset)  # moved, not assigned again
    consumer.disconnect(KEY)
    consumer.close()
    assert witness.heard == [("assigned", KEY, offset), ("assigned", OTHER, 0), ("revoked", KEY), ("revoked", OTHER)]


@pytest.mark.parametrize("leave", [ClientBalanceConsumer.close, lambda consumer: consumer.disconnect(KEY)])
def test_a_confirm_inside_on_revoked_counts(
    tube: Cluster, consumer_of: MakeConsumer, witness: Witness, leave: Callable[[ClientBalanceConsumer], object]
) -> None:
    offsets = tube.put(KEY, [b"before", b"the end"])
    consumer = consumer_of("callbacks_confirm", ["callbacks"], **witness.options)
    consumer.connect(KEY, offsets[0])
    out: Delivery = take(consumer)
    confirmed = []
    witness.on_revoked = lambda key: confirmed.append(consumer.confirm(out))
    leave(consumer)
    assert confirmed == [offsets[1] + 28]
    after = consumer_of("callbacks_confirm", ["callbacks"])
    assert after.connect(KEY) == offsets[1] + 28
