"""What the embedded servers do not do: flow control at the broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.apache.server import ApacheTubeMQ
from tests.conformance.cluster import ApacheCluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of, take
from tests.waiting import wait_for
from tubeclient import SpeedLimited
from tubeclient.flows.effects import checked
from tubeclient.flows.reader import REGISTER, UNREGISTER
from tubeclient.wire.methods import Method

pytestmark = pytest.mark.apache

KEY = partition_of("limited")


@pytest.fixture
def tube(apache: ApacheTubeMQ) -> ApacheCluster:
    return ApacheCluster(apache)


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
