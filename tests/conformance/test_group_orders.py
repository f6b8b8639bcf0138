"""What a master is told over HTTP to have a group do reaches our consumer: to skip to the end, and how fast to read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.conformance.clients import partition_of, take
from tests.conformance.cluster import Cluster
from tests.conformance.conftest import ON_APACHE
from tests.waiting import wait_for
from tubeclient import ClientSettings, PartitionKey, PullConsumer
from tubeclient.flows.throttling import EmptyPolls, FetchPauses, FlowRules
from tubeclient.net.http import query_master

pytestmark = [pytest.mark.apache, ON_APACHE]

KEYS = [partition_of("orders", 1), partition_of("orders", 2)]

Change = Callable[..., None]


@pytest.fixture(autouse=True)
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 300)


@pytest.fixture
def change(tube: Cluster) -> Change:
    """`change("admin_...", groupName="etl")`: change something at the master."""

    def carry_out(method: str, **parameters: str) -> None:
        who = {"createUser": "tests", "modifyUser": "tests", "confModAuthToken": tube.modify_token}
        query_master(f"127.0.0.1:{tube.master_web_port}", method, 5_000, **who, **parameters)

    return carry_out


def set_rule(change: Change, group: str, kind: int, item: dict[str, int]) -> None:
    text = json.dumps([{"type": kind, "rule": [item]}])
    change("admin_set_group_flow_control_rule", groupName=group, flowCtrlInfo=text, statusId="1")


def test_a_group_is_sent_to_the_end(tube: Cluster, settings: ClientSettings, change: Change) -> None:
    ends: dict[PartitionKey, int] = {}

    def at_the_end() -> bool:
        return {key: position.confirmed for key, position in consumer.positions().items()} == ends

    with PullConsumer(settings, "orders_jump", ["orders"], start_from="earliest", prefetch=0) as consumer:
        wait_for(lambda: consumer.registered() == KEYS, "both partitions")
        for _ in range(2):  # an order counts as often as it is given
            ends.update({key: tube.put(key, [b"old"] * 20)[-1] + 28 for key in KEYS})
            change("admin_set_client_balance_group_consume_from_max", groupName="orders_jump")
            wait_for(at_the_end, "both partitions to be at their ends")
        tube.put(KEYS[0], [b"new"])
        assert take(consumer).bodies == [b"new"]


def test_group_rules_reach_the_consumer(settings: ClientSettings, change: Change) -> None:
    """A consumer gets its group's rules when it registers and later by heartbeat."""
    set_rule(change, "orders_rule", 1, {"zeroCnt": 3, "freqInMs": 7_000})
    with PullConsumer(settings, "orders_rule", ["orders"]) as consumer:
        assert consumer._running.fetcher.orders.group_rules == FlowRules(empty_polls=(EmptyPolls(3, 7_000),))
        set_rule(change, "orders_rule", 3, {"normFreqInMs": 5, "filterFreqInMs": 6, "minDataFilterFreqInMs": 7})
        new = FlowRules(fetch_pauses=FetchPauses(5, 6, 7))
        wait_for(lambda: consumer._running.fetcher.orders.group_rules == new, "the new rule")
