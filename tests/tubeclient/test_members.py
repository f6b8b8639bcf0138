"""Who reads what where the live clients are counted: pure functions, whatever each client believes and when."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.consumers.members import share_of, to_hold
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

STRATEGIES = st.sampled_from(["modulo", "hash_modulo", "averagely", "consistent_hash"])
IDS = st.lists(st.text("abc-19", min_size=1, max_size=4), min_size=1, max_size=6, unique=True)
COUNTS = st.integers(0, 20)


def partitions(count: int) -> list[PartitionKey]:
    return [PartitionKey(number % 3 + 1, "clicks", number) for number in range(count)]


class Broker:
    """Gives a partition to one client at a time, and takes it back from nobody but that one."""

    def __init__(self) -> None:
        self.owners: dict[PartitionKey, str] = {}

    def held(self, client: str) -> set[PartitionKey]:
        return {key for key, owner in self.owners.items() if owner == client}

    def follow(self, client: str, ours: Collection[PartitionKey]) -> None:
        """One round: give back, then take what is free."""
        for key in self.held(client) - set(ours):
            del self.owners[key]
        for key in ours:
            self.owners.setdefault(key, client)


@given(IDS, COUNTS, STRATEGIES, st.randoms(use_true_random=False))
def test_the_shares_of_all_members_are_all_partitions_each_once(members, count, strategy, random) -> None:  # type: ignore[no-untyped-def]
    everything = partitions(count)
    shares = []
    for client in members:
        view, keys = random.sample(members, len(members)), random.sample(everything, count)
        share = share_of(view, client, strategy, keys)
        assert share is not None
        shares += share
    assert sorted(shares) == sorted(everything)


@given(st.data(), IDS, COUNTS, STRATEGIES)
def test_once_views_agree_for_one_refresh_each_partition_has_one_reader(
    data: st.DataObject, members: list[str], count: int, strategy: str
) -> None:
    broker, everything = Broker(), partitions(count)
    clients = st.sampled_from(members)
    for _ in range(data.draw(st.integers(0, 30), label="rounds")):
        client = data.draw(clients)
        view = data.draw(st.lists(clients, unique=True), label=f"{client} sees")
        settling = data.draw(st.booleans(), label="settling")
        share = share_of(view, client, strategy, everything)
        before = broker.held(client)
        ours = to_hold(share, before, settling=settling)
        broker.follow(client, ours)
        if share is None or settling:
            assert before <= broker.held(client)
    live = data.draw(st.lists(clients, unique=True, min_size=1), label="live")
    for client in set(members) - set(live):  # their leases end
        broker.follow(client, ())

    def refresh(client: str) -> None:
        share = share_of(live, client, strategy, everything)
        assert share is not None
        broker.follow(client, to_hold(share, broker.held(client), settling=False))

    for client in data.draw(st.permutations(live), label="refresh"):
        refresh(client)
    for client in data.draw(st.permutations(live), label="try again for what was still held"):
        refresh(client)
    assert sorted(broker.owners) == sorted(everything)
    for client in live:
        share = share_of(live, client, strategy, everything)
        assert share is not None
        assert broker.held(client) == set(share)


def test_a_client_that_is_not_listed_has_no_share_and_keeps_what_it_has() -> None:
    keys = partitions(4)
    assert share_of(["a", "b"], "c", "modulo", keys) is None
    assert share_of([], "c", "modulo", keys) is None
    assert set(to_hold(None, keys[:2], settling=False)) == set(keys[:2])
    with pytest.raises(ConfigurationError, match="'modulus' is unknown"):
        share_of(["a"], "a", "modulus", keys)
