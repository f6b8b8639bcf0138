"""Brokers and topics as the master announces them, and the versions that go with them."""

from __future__ import annotations

from typing import Any

from embedded_tubemq.common.catalogue import BrokerState, TopicConfig
from tests.embedded_tubemq.machines import FakeMaster
from tubeclient.keys import BrokerInfo
from tubeclient.wire.methods import Method


def metadata(master: FakeMaster, brokers: int = -2, topics: int = -2) -> Any:
    return master.call(
        Method.PARTITION_METADATA, clientId="c0", groupName="g", brokerConfigId=brokers, topicMetaInfoId=topics
    )


def test_lists_come_only_where_the_client_knows_another_version(master: FakeMaster) -> None:
    master.join()
    first = metadata(master)
    assert list(first.topicMetaInfoList) == ["flights#1:2:4:1"]
    assert list(first.brokerConfigList) == ["1:127.0.0.1:8123"]
    again = metadata(master, first.brokerConfigId, first.topicMetaInfoId)
    assert not again.topicMetaInfoList
    assert not again.brokerConfigList
    assert (again.brokerConfigId, again.topicMetaInfoId) == (first.brokerConfigId, first.topicMetaInfoId)


def test_every_change_of_a_list_changes_its_version(master: FakeMaster) -> None:
    master.join()
    seen = metadata(master)
    master.catalogue.grow_topic("flights", partitions=8)
    grown = metadata(master, seen.brokerConfigId, seen.topicMetaInfoId)
    assert list(grown.topicMetaInfoList) == ["flights#1:2:8:1"]
    assert not grown.brokerConfigList
    master.catalogue.put_broker(BrokerState(BrokerInfo(2, "127.0.0.1", 9123), 9081))
    wider = metadata(master, grown.brokerConfigId, grown.topicMetaInfoId)
    assert list(wider.brokerConfigList) == ["1:127.0.0.1:8123", "2:127.0.0.1:9123"]
    assert list(wider.topicMetaInfoList) == ["flights#1:2:8:1,2:2:8:1"]


def test_a_topic_may_be_closed_for_readers_or_producers(master: FakeMaster) -> None:
    master.catalogue.put_topic(TopicConfig("flights", 2, 4, accept_publish=False, accept_subscribe=False))
    master.join()
    assert list(metadata(master).topicMetaInfoList) == ["flights#1:2:4:0"]
    assert not master.catalogue.producer_layouts("flights")


def test_heartbeats_push_topics_only_to_clients_with_partitions_and_an_old_view(master: FakeMaster) -> None:
    def beat(assigned_ms: int, *parts: str) -> Any:
        info = {"brokerConfigId": -2, "topicMetaInfoId": -2, "lstAssignedTime": assigned_ms, "reportSubInfo": True}
        return master.heartbeat(subRepInfo={**info, "partSubInfo": parts})

    master.join()
    old = master.now_ms - 180_001
    assert not beat(old).HasField("topicMetaInfoId")
    assert not beat(master.now_ms, "flights#1:0").HasField("topicMetaInfoId")
    assert not beat(-2, "flights#1:0").HasField("topicMetaInfoId")
    assert list(beat(old, "flights#1:0").topicMetaInfoList) == ["flights#1:2:4:1"]


def test_a_restarted_master_has_new_versions(master: FakeMaster) -> None:
    before = master.catalogue.broker_version, master.catalogue.topic_version
    master.catalogue.renew_versions(master.now_ms)
    assert master.catalogue.broker_version > before[0]
    assert master.catalogue.topic_version > before[1]
