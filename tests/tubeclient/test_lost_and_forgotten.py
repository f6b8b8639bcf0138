"""A broker that has forgotten a client, or given its partition to another one, and how the client comes to know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.broker.ownership import Reader as RivalReader
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.group_page import group_page
from tests.waiting import wait_for
from tubeclient import ClientBalanceConsumer, ClientSettings, Delivery, PartitionKey, PullConsumer, StalePack

NEVER_MS = 3_600_000
KEY = PartitionKey(1, "single", 0)
CURSOR = Cursor("etl", KEY.topic, KEY.partition_id)


class Owned:
    """A consumer that has one partition with messages, of which it has taken a pack, and what it says."""

    def __init__(self, cluster: EmbeddedTubeMQ, consumer: ClientBalanceConsumer, moves: list[str]) -> None:
        self.consumer = consumer
        self.moves = moves
        self.cluster = cluster
        self.pack = self.take()

    def take(self) -> Delivery:
        delivery = self.consumer.get(timeout_ms=30_000)
        assert delivery is not None
        return delivery

    @property
    def owner(self) -> str | None:
        """Who has the partition, as its broker sees it."""
        reader = self.cluster.inspect(lambda broker: broker.ownership.owner(CURSOR))
        return None if reader is None else reader.client_id

    @property
    def page(self) -> dict[int, list[str]]:
        """What the group has, as the master was told."""
        return group_page(self.cluster.master_web_port, CURSOR.group)

    def forget(self) -> None:
        self.cluster.inspect(lambda broker: broker.ownership.release(CURSOR))

    def give_away(self) -> None:
        self.forget()
        thief = RivalReader("thief", None, 0, 0)
        self.cluster.inspect(lambda broker: broker.ownership.take(CURSOR, thief, 1 << 60))


# How a client comes to know.


def by_fetch(owned: Owned) -> None:
    owned.consumer.get(timeout_ms=2_000)


def by_confirming(owned: Owned) -> None:
    with pytest.raises(StalePack):
        owned.consumer.confirm(owned.pack)


def by_heartbeat(owned: Owned) -> None:
    """Nothing is asked of the broker but that."""


WAYS = pytest.mark.parametrize("notice", [by_fetch, by_confirming, by_heartbeat])
KINDS = pytest.mark.parametrize("kind", [ClientBalanceConsumer, PullConsumer])


@pytest.fixture
def own(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch, notice: Callable[[Owned], None]
) -> Callable[..., Any]:
    """`own(kind)`: a consumer that nothing comes to by itself; heartbeats do where they are what is looked at."""
    beats_ms = 100 if notice is by_heartbeat else NEVER_MS
    monkeypatch.setattr("tubeclient.flows.keep_leases.LEASE_BEAT_MS", beats_ms)
    cluster.load(KEY.topic, [NewMessage(0, b"x")] * 3, broker_id=KEY.broker_id)

    @contextmanager
    def make(kind: type[ClientBalanceConsumer]) -> Iterator[Owned]:
        moves: list[str] = []
        options: dict[str, Any] = {
            "start_from": "earliest",
            "prefetch": 0,
            # A pack that is out keeps its partition from being asked for more.
            "confirm_timeout_ms": 1 if notice is by_fetch else NEVER_MS,
            "metadata_interval_ms": NEVER_MS,
            "on_assigned": lambda key, offset: moves.append(f"assigned {key}"),
            "on_revoked": lambda key: moves.append(f"revoked {key}"),
            "on_lost": lambda key, error: moves.append(f"lost {key}"),
        }
        if kind is PullConsumer:
            options |= {"strategy": lambda keys: [KEY], "balance_interval_ms": NEVER_MS}
        with kind(settings, "etl", [KEY.topic], source_count=1, node_id=0, **options) as consumer:
            if kind is ClientBalanceConsumer:
                consumer.connect(KEY)
            owned = Owned(cluster, consumer, moves)
            assert moves == [f"assigned {KEY}"]
            moves.clear()
            yield owned
            moves.clear()

    return make


@WAYS
@KINDS
def test_a_partition_that_its_broker_has_forgotten_is_registered_again(
    own: Any, notice: Callable[[Owned], None], kind: type[ClientBalanceConsumer]
) -> None:
    with own(kind) as owned:
        owned.forget()
        notice(owned)
        wait_for(lambda: owned.owner == owned.consumer.consumer_id, "the registration")
        assert owned.moves == []


@WAYS
def test_a_partition_that_another_client_has_is_lost(own: Any, notice: Callable[[Owned], None]) -> None:
    with own(ClientBalanceConsumer) as owned:
        wait_for(lambda: owned.page == {0: [str(KEY)]}, "the master to be told of it")
        owned.give_away()
        notice(owned)
        wait_for(lambda: owned.moves == [f"lost {KEY}"], "the loss")
        assert owned.consumer.registered() == []
        wait_for(lambda: owned.page == {0: []}, "the master to be told")


@WAYS
def test_a_lost_partition_that_is_ours_is_taken_when_it_is_free(own: Any, notice: Callable[[Owned], None]) -> None:
    with own(PullConsumer) as owned:
        owned.give_away()
        notice(owned)
        wait_for(lambda: owned.moves == [f"lost {KEY}"], "the loss")
        owned.forget()
        wait_for(lambda: owned.moves == [f"lost {KEY}", f"assigned {KEY}"], "it to be had again")
