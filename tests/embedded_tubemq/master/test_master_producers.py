"""Producers at the master: register, heartbeat, close."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_tubemq.common.codes import Code
from embedded_tubemq.master.master import MasterSettings
from tests.embedded_tubemq.machines import FakeMaster
from tubeclient.wire.methods import Method
from tubeclient.wire.signature import sign


def register(master: FakeMaster, **fields: Any) -> Any:
    fields = {"clientId": "p", "hostName": "h", "brokerCheckSum": -1} | fields
    return master.call(Method.PRODUCER_REGISTER, **fields)


def heartbeat(master: FakeMaster, *topics: str, **fields: Any) -> Any:
    fields = {"clientId": "p", "hostName": "h", "brokerCheckSum": -1, "topicList": topics} | fields
    return master.call(Method.PRODUCER_HEARTBEAT, **fields)


def test_registering_always_gives_the_brokers_and_no_topics(master: FakeMaster) -> None:
    answer = register(master, brokerCheckSum=master.catalogue.broker_version)
    assert answer.success
    assert list(answer.brokerInfos) == ["1:127.0.0.1:8123"]
    assert answer.brokerCheckSum == master.catalogue.broker_version


def test_heartbeats_give_the_published_topics_with_partitions_before_stores(master: FakeMaster) -> None:
    register(master)
    answer = heartbeat(master, "flights", "nowhere")
    assert answer.success
    assert list(answer.topicInfos) == ["flights#1:4:2#1048576"]
    assert list(answer.brokerInfos) == ["1:127.0.0.1:8123"]
    assert not heartbeat(master, "flights", brokerCheckSum=answer.brokerCheckSum).brokerInfos


@pytest.mark.parametrize("asked", [{"appdConfig": {"configId": -2}}, {}])
def test_the_largest_message_is_told_to_those_who_do_not_know_it(master: FakeMaster, asked: dict[str, Any]) -> None:
    answer = register(master, **asked)
    assert answer.appdConfig.maxMsgSize == 1 << 20
    again = heartbeat(master, appdConfig={"configId": answer.appdConfig.configId})
    assert not again.appdConfig.HasField("maxMsgSize")


def test_the_lease_of_a_producer(master: FakeMaster) -> None:
    assert heartbeat(master).errCode == Code.HB_NO_NODE
    register(master)
    master.now_ms += 29_999
    assert heartbeat(master).success
    master.now_ms += 30_000
    assert heartbeat(master).errCode == Code.HB_NO_NODE


def test_with_users_a_signature_is_asked_for() -> None:
    master = FakeMaster(settings=MasterSettings(users={"alice": "secret"}))

    def credential(user: str, password: str, age_ms: int = 0) -> dict[str, Any]:
        made = master.now_ms - age_ms
        info = {"userName": user, "timestamp": made, "nonce": 7, "othParams": ""}
        return {"authInfo": {"authInfo": {**info, "signature": sign(user, password, made, 7).signature}}}

    assert register(master).errCode == Code.CERTIFICATE_FAILURE
    assert register(master, **credential("alice", "wrong")).errCode == Code.CERTIFICATE_FAILURE
    assert register(master, **credential("bob", "secret")).errCode == Code.CERTIFICATE_FAILURE
    assert register(master, **credential("alice", "secret", age_ms=20_001)).errCode == Code.CERTIFICATE_FAILURE
    assert register(master, **credential("alice", "secret", age_ms=20_000)).success
    assert master.join().errCode == Code.CERTIFICATE_FAILURE
    assert master.join(**credential("alice", "secret")).errCode == Code.SUCCESS
    # Every call is asked, not only the first.
    assert heartbeat(master).errCode == Code.CERTIFICATE_FAILURE
    assert heartbeat(master, **credential("alice", "secret")).success
    assert master.heartbeat().errCode == Code.CERTIFICATE_FAILURE
    assert master.heartbeat(**credential("alice", "secret")).errCode == Code.SUCCESS
