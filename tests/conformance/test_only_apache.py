"""What the embedded servers do not do: groups that the master balances, and flow control at the broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.apache.java_client import JavaPullConsumer
from tests.apache.java_gateway import JavaVM
from tests.apache.server import ApacheTubeMQ
from tests.conformance.cluster import ApacheCluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of, take
from tests.waiting import wait_for
from tubeclient import GroupConflict, SpeedLimited
from tubeclient.errors import STATUS_CLASSES
from tubeclient.flows.effects import checked
from tubeclient.flows.reader import REGISTER, UNREGISTER
from tubeclient.wire.methods import Method

pytestmark = pytest.mark.apache

KEY = partition_of("limited")


@pytest.fixture
def tube(apache: ApacheTubeMQ) -> ApacheCluster:
    return ApacheCluster(apache)


def test_ours_is_refused_in_a_group_that_the_master_balances(
    tube: ApacheCluster, java_vm: JavaVM, consumer_of: MakeConsumer
) -> None:
    with closing(JavaPullConsumer(java_vm, tube.master_address, "server_balanced")) as java:
        java.start("limited")
        with pytest.raises(GroupConflict, match="424") as caught:
            consumer_of("server_balanced", ["limited"])
    assert caught.value.code == 424


@pytest.mark.parametrize(("code", "differing"), [(427, {"sessionKey": "other"}), (428, {"selectBig": False})])
def test_groups_bound_to_offsets_have_codes_of_their_own(
    tube: ApacheCluster, code: int, differing: dict[str, object]
) -> None:
    """No client of ours is in such a group; its codes mean the same as 424 to 426."""
    fields = {
        "groupName": f"bound_{code}",
        "hostName": "127.0.0.1",
        "topicList": ["limited"],
        "requireBound": True,
        "sessionTime": 1,
        "sessionKey": "key",
        "totalCount": 2,
        "requiredPartition": "",
        "notAllocated": True,
        "selectBig": True,
    }
    with tube.raw() as master:
        assert master.call(Method.CONSUMER_REGISTER, clientId="first", **fields).errCode == 200
        assert master.call(Method.CONSUMER_REGISTER, clientId="second", **fields | differing).errCode == code
        master.call(Method.CONSUMER_CLOSE, clientId="first", groupName=fields["groupName"])
    assert STATUS_CLASSES[code] is GroupConflict


@contextmanager
def flow_rule(tube: ApacheCluster, text: str) -> Iterator[None]:
    """The cluster's default rule, for the length of the block."""
    tube.servers.admin.modify("admin_set_def_flow_control_rule", flowCtrlInfo=text, statusId=1)
    try:
        yield
    finally:
        tube.servers.admin.modify("admin_rmv_def_flow_control_rule")


def test_a_limited_reader_is_told_to_wait(tube: ApacheCluster, consumer_of: MakeConsumer) -> None:
    offsets = tube.put(KEY, [bytes(300_000)] * 6)  # three packs, each but the last with a lag behind it
    reader = {
        "clientId": "limited-raw",
        "groupName": "limited_raw",
        "topicName": KEY.topic,
        "partitionId": KEY.partition_id,
    }
    item = '{"start":"00:00","end":"24:00","dltInM":21,"limitInM":0,"freqInMs":1000}'
    with flow_rule(tube, f'[{{"type":0,"rule":[{item}]}}]'), tube.raw(1) as broker:
        answers: list[Any] = []

        def refused() -> bool:
            # A rule counts for a reader from its next minute on, and a new registration begins a new one.
            broker.call(Method.PARTITION_REGISTER, **reader, opType=REGISTER, readStatus=0, currOffset=offsets[0])
            for _ in range(2):
                answers.append(broker.call(Method.GET_MESSAGES, **reader, lastPackConsumed=True))
            return bool(answers[-1].errCode == 452)

        wait_for(refused, "the broker to limit a reader")
        assert answers[-1].minLimitTime == 1_000
        with pytest.raises(SpeedLimited):
            checked(answers[-1], "reading")
        broker.call(Method.PARTITION_REGISTER, **reader, opType=UNREGISTER, readStatus=1)
        consumer = consumer_of("limited_ours", [KEY.topic])
        consumer.connect(KEY, offsets[0])
        consumer.confirm(take(consumer))  # the first fetch is free
        assert consumer.get(timeout_ms=1_500) is None
        assert consumer.positions()[KEY].confirmed < offsets[-1]
