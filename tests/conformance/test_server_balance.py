"""Groups whose partitions the master hands out: Apache's PullMessageConsumer gets the same from both masters."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.apache.java_client import JavaPullConsumer
from tests.apache.java_gateway import JavaVM
from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of
from tests.embedded_tubemq.raw_client import http_get
from tests.waiting import wait_for
from tubeclient import GroupConflict, PartitionKey
from tubeclient.errors import STATUS_CLASSES
from tubeclient.wire.methods import Method

pytestmark = pytest.mark.apache

HEARTBEAT_MS: Final = 500
# A dead client's leases, at the master and at the brokers, last 30 s; a round comes every 3 s at most, and takes some.
SECONDS: Final = 120.0

PullConsumers = Callable[..., JavaPullConsumer]


@pytest.fixture
def pull_consumer(tube: Cluster, java_vm: JavaVM) -> Iterator[PullConsumers]:
    """`pull_consumer(group)`: a consumer yet to be started; closed after the test, unless its JVM has died."""
    with contextlib.ExitStack() as closing:

        def make(group: str, java: JavaVM = java_vm) -> JavaPullConsumer:
            consumer = JavaPullConsumer(java, tube.master_address, group, heartbeat_ms=HEARTBEAT_MS)
            if java is java_vm:
                closing.callback(consumer.close)
            return consumer

        yield make


def keys_of(topic: str, partitions: Iterable[int]) -> list[PartitionKey]:
    """These partitions of the topic on both brokers."""
    return [PartitionKey(broker_id, topic, number) for broker_id in (1, 2) for number in partitions]


def put_some(tube: Cluster, keys: Iterable[PartitionKey], mark: str) -> list[tuple[str, bytes]]:
    """Two messages into each partition; what readers have to get."""
    sent = []
    for key in keys:
        bodies = [f"{mark} {key} {number}".encode() for number in range(2)]
        tube.put(key, bodies)
        sent += [(str(key), body) for body in bodies]
    return sorted(sent)


def read(consumers: Iterable[JavaPullConsumer], count: int) -> list[tuple[str, bytes]]:
    """Get and confirm in turns until all have got so many messages; their partitions and bodies, sorted."""
    got: list[tuple[str, bytes]] = []
    deadline = time.monotonic() + SECONDS
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages"
        for consumer in consumers:
            pack = consumer.get_message()
            if pack is not None:
                got += [(pack.partition_key, message.payload) for message in pack.messages]
                consumer.confirm(pack.confirm_context)
    return sorted(got)


def await_split(consumers: Iterable[JavaPullConsumer], keys: Iterable[PartitionKey]) -> None:
    """Return when the consumers hold all partitions, none twice, and none holds two more than another."""
    wanted = sorted(map(str, keys))

    def even() -> bool:
        held = [one.held() for one in consumers]
        sizes = sorted(map(len, held))
        return sorted(key for keys in held for key in keys) == wanted and sizes[-1] - sizes[0] <= 1

    wait_for(even, f"an even share of {len(wanted)} partitions", seconds=SECONDS)


def page_of(tube: Cluster, group: str) -> Any:
    return http_get(tube.master_web_port, "admin_query_consume_group_detail", groupName=group)


def test_one_consumer_reads_all_and_two_split_it(tube: Cluster, pull_consumer: PullConsumers) -> None:
    keys = keys_of("handed_out", (0, 1, 10000, 10001))
    group = "handed_out"
    sent = put_some(tube, keys, "alone")
    first = pull_consumer(group).start("handed_out")
    await_split([first], keys)
    assert read([first], len(sent)) == sent
    second = pull_consumer(group).start("handed_out")
    await_split([first, second], keys)
    sent = put_some(tube, keys, "shared")
    assert read([first, second], len(sent)) == sent
    assert first.get_message() is None

    def shown() -> bool:  # reports come with events, and every few heartbeats
        page = page_of(tube, group)
        return {row["consumerId"]: row["parCount"] for row in page["data"]} == {
            first.consumer_id: 4,
            second.consumer_id: 4,
        }

    wait_for(shown, "the group's page to show what the clients hold")
    page = page_of(tube, group)
    assert (page["isBandConsume"], page["re-rebalance"], page["topicSet"]) == ("unbound", {}, ["handed_out"])
    # One client joined first, with two brokers.
    limits = {"defBClientRate": 1000, "confBClientRate": -2, "curBClientRate": 2}
    assert page["rebInfo"] == {"isRebalanced": True, "checkPasted": True, **limits}
    assert set(page["data"][0]) == {"consumerId", "receivedFrom", "isOverTLS", "parCount", "parInfo"}
    balanced = http_get(tube.master_web_port, "admin_query_client_balance_group_set")
    assert group not in balanced["data"]
    second.close()
    await_split([first], keys)


def test_a_third_joins_and_a_dead_ones_partitions_go_on_where_it_confirmed(
    tube: Cluster, pull_consumer: PullConsumers, tmp_path: Path
) -> None:
    keys = keys_of("handed_over", (0, 1))
    group = "handed_over"
    with JavaVM(tmp_path / "other", heap_mb=64) as other:
        dying = pull_consumer(group, other).start("handed_over")
        await_split([dying], keys)
        confirmed = put_some(tube, keys, "confirmed")
        assert read([dying], len(confirmed)) == confirmed
        first, second = (pull_consumer(group).start("handed_over") for _ in range(2))
        await_split([dying, first, second], keys)
        held = dying.held()
        lost = put_some(tube, keys, "lost")
        pack = None
        while pack is None:
            pack = dying.get_message()
        assert pack.messages  # not confirmed
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
        assert read([first, second], len(lost)) == lost
        await_split([first, second], keys)
        assert held <= first.held() | second.held()


def test_a_bound_group_begins_at_its_offsets(tube: Cluster, pull_consumer: PullConsumers) -> None:
    keys = keys_of("bound", (0,))
    offsets = {str(key): tube.put(key, [b"before", str(key).encode()])[1] for key in keys}
    consumer = pull_consumer("bound").start_at("bound", {str(keys[0]): offsets[str(keys[0])]}, "session")
    got = read([consumer], 3)
    assert [body for key, body in got if key == str(keys[0])] == [str(keys[0]).encode()]
    assert [body for key, body in got if key == str(keys[1])] == sorted([b"before", str(keys[1]).encode()])
    page = page_of(tube, "bound")
    shown = {name: page[name] for name in ("isBandConsume", "isNotAllocate", "sessionKey", "isSelectBig")}
    assert shown == {"isBandConsume": "bound", "isNotAllocate": False, "sessionKey": "session", "isSelectBig": True}
    assert (page["reqSourceCount"], page["curSourceCount"]) == (1, 1)
    [row] = page["data"]
    given = [{"partitionKey": str(keys[0]), "Offset": offsets[str(keys[0])]}]
    assert (row["initReSetPartCount"], row["initReSetPartInfo"]) == (1, given)


def test_kinds_do_not_mix(tube: Cluster, pull_consumer: PullConsumers, consumer_of: MakeConsumer) -> None:
    pull_consumer("server_balanced").start("limited")
    with pytest.raises(GroupConflict, match="424") as caught:
        consumer_of("server_balanced", ["limited"])
    assert caught.value.code == 424
    consumer_of("self_balanced", ["limited"])
    with tube.raw() as master:
        for bound in (False, True):
            fields = joining("self_balanced", requireBound=bound)
            assert master.call(Method.CONSUMER_REGISTER, clientId="other", **fields).errCode == 424


def joining(group: str, **more: object) -> dict[str, object]:
    """A registration for a bound group, as Java's client writes it."""
    return {
        "groupName": group,
        "hostName": "127.0.0.1",
        "topicList": ["limited"],
        "requireBound": True,
        "sessionTime": 1,
        "sessionKey": "key",
        "totalCount": 2,
        "requiredPartition": "",
        "notAllocated": True,
        "selectBig": True,
        **more,
    }


@pytest.mark.parametrize(
    ("code", "differing"),
    [
        (424, {"requireBound": False}),
        (425, {"topicList": ["limited", "held"]}),
        (426, {"topicCondition": ["limited#tag"]}),
        (427, {"sessionKey": "other"}),
        (428, {"selectBig": False}),
        (429, {"totalCount": 3}),
    ],
)
def test_who_does_not_fit_a_bound_group(tube: Cluster, code: int, differing: dict[str, object]) -> None:
    group = f"bound_{code}"
    with tube.raw() as master:
        assert master.call(Method.CONSUMER_REGISTER, clientId="first", **joining(group)).errCode == 200
        answer = master.call(Method.CONSUMER_REGISTER, clientId="second", **joining(group, **differing))
        assert (answer.success, answer.errCode) == (False, code)
        master.call(Method.CONSUMER_CLOSE, clientId="first", groupName=group)


def test_codes_of_bound_groups_mean_the_same_as_those_of_others() -> None:
    """No client of ours is in such a group."""
    assert {STATUS_CLASSES[code] for code in range(424, 429)} == {GroupConflict}


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (400, {"topicList": []}),
        (400, {"sessionKey": " "}),
        (400, {"totalCount": 0}),
        (400, {"requiredPartition": "1:limited=3"}),
        (400, {"requiredPartition": "1:limited:0"}),
        (400, {"requiredPartition": "1:held:0=28"}),
        (431, {"topicList": ["nowhere"]}),
    ],
)
def test_senseless_registrations(tube: Cluster, code: int, fields: dict[str, object]) -> None:
    with tube.raw() as master:
        answer = master.call(Method.CONSUMER_REGISTER, clientId="odd", **joining("senseless", **fields))
    assert (answer.success, answer.errCode) == (False, code)


def test_a_stranger_is_told_to_register(tube: Cluster) -> None:
    with tube.raw() as master:
        beat = {"clientId": "nobody", "groupName": "nobodys", "reportSubscribeInfo": False}
        assert master.call(Method.CONSUMER_HEARTBEAT, **beat).errCode == 411
        master.call(Method.CONSUMER_REGISTER, clientId="somebody", **joining("nobodys", requireBound=False))
        assert master.call(Method.CONSUMER_HEARTBEAT, **beat).errCode == 411
        master.call(Method.CONSUMER_CLOSE, clientId="somebody", groupName="nobodys")


def test_one_open_event_at_a_time(tube: Cluster) -> None:
    """A client that never reports is told once."""
    key = partition_of("limited")
    beat = {"clientId": "silent", "groupName": "silent", "reportSubscribeInfo": False, "defFlowCheckId": -2}
    with tube.raw() as master:
        answer = master.call(Method.CONSUMER_REGISTER, clientId="silent", **joining("silent", requireBound=False))
        assert (answer.errCode, answer.notAllocated) == (200, True)
        events: list[Any] = []

        def told() -> bool:
            answer = master.call(Method.CONSUMER_HEARTBEAT, **beat)
            assert (answer.success, answer.notAllocated, answer.defFlowControlInfo) == (True, True, " ")
            assert answer.HasField("requireAuth") is False
            if answer.HasField("event"):
                events.append(answer.event)
            return bool(events)

        wait_for(told, "an event")
        [event] = events
        brokers = tube.brokers
        assert (event.opType, event.HasField("status")) == (10, False)
        texts = [f"silent@silent#{brokers[one]}#limited:{key.partition_id}" for one in (1, 2)]
        assert sorted(event.subscribeInfo) == texts
        ends = time.monotonic() + 4.0
        while time.monotonic() < ends:
            assert not master.call(Method.CONSUMER_HEARTBEAT, **beat).HasField("event")
            time.sleep(0.2)
        done = {"rebalanceId": event.rebalanceId, "opType": event.opType, "status": 2}
        report = {**beat, "reportSubscribeInfo": True, "subscribeInfo": texts, "event": done}
        assert master.call(Method.CONSUMER_HEARTBEAT, **report).notAllocated is False
        [row] = page_of(tube, "silent")["data"]
        assert sorted(item["brokerAddr"] for item in row["parInfo"]) == [str(brokers[one]) for one in (1, 2)]
        master.call(Method.CONSUMER_CLOSE, clientId="silent", groupName="silent")
