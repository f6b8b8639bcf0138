"""A cluster's life: starts and stops, clean and not, topics that come, grow and go."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient.errors import ConfigurationError
from tubeclient.wire.methods import Method

READER = {"clientId": "c", "groupName": "g", "topicName": "flights", "partitionId": 0}


def register(address: str, **fields: Any) -> Any:
    with RawClient(address) as client:
        return client.call(Method.PARTITION_REGISTER, **({**READER, "opType": 31, "readStatus": 0} | fields))


def read_without_commit(address: str) -> None:
    with RawClient(address) as client:
        client.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0, currOffset=28)
        assert len(client.call(Method.GET_MESSAGES, **READER).messages) == 2


@pytest.mark.parametrize(("clean", "position"), [(True, 84), (False, 28)])
def test_a_clean_stop_commits_what_is_in_flight_a_crash_does_not(tmp_path: Path, clean: bool, position: int) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("flights")]) as tube:
        tube.load("flights", (NewMessage(0, b"m") for _ in range(3)))
        address = tube.broker_addresses[1]
        read_without_commit(address)
        # What a crash keeps is what was saved before it, once a second.
        deadline = time.monotonic() + 10
        while not (tmp_path / "broker-1" / "offsets.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        tube.stop_broker(clean=clean)
        with pytest.raises(ConnectionRefusedError):
            RawClient(address)
        tube.start_broker()
        assert tube.broker_addresses[1] == address
        # Another client: leases do not survive.
        assert register(address, clientId="other").currOffset == position


def test_everything_is_found_again_by_the_next_process(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("flights", 2, 3)], brokers=2) as tube:
        tube.load("flights", [NewMessage(10_001, b"m")], broker_id=2)
        tube.create_topic(TopicConfig("clicks"))
        register(tube.broker_addresses[2], partitionId=10_001, readStatus=1)
        tube.expire("flights", 28, store_id=1, broker_id=2)
    with EmbeddedTubeMQ(tmp_path, brokers=2) as tube:
        assert tube.bounds("flights", store_id=1, broker_id=2) == (28, 28)
        assert tube.bounds("clicks") == (0, 0)
        assert register(tube.broker_addresses[2], partitionId=10_001).currOffset == 28


def test_passwords_and_token_are_in_no_repr(tmp_path: Path) -> None:
    tube = EmbeddedTubeMQ(tmp_path, users={"alice": "canary"}, token="canary")
    assert "canary" not in f"{tube!r} {vars(tube)!r}"


def test_brokers_come_and_go(tube: EmbeddedTubeMQ, to_master: RawClient) -> None:
    to_master.call(
        Method.CONSUMER_REGISTER_V2,
        clientId="c",
        groupName="g",
        hostName="h",
        sourceCount=1,
        nodeId=0,
        topicList=["flights"],
    )

    def shown() -> tuple[list[int], list[str]]:
        fields = {"clientId": "c", "groupName": "g", "brokerConfigId": -1, "topicMetaInfoId": -1}
        answer = to_master.call(Method.PARTITION_METADATA, **fields)
        return [int(text.split(":")[0]) for text in answer.brokerConfigList], list(answer.topicMetaInfoList)

    assert tube.add_broker() == 3
    assert tube.broker_ids == [1, 2, 3]
    assert shown() == ([1, 2, 3], ["flights#1:2:2:1,2:2:2:1,3:2:2:1"])
    tube.load("flights", [NewMessage(0, b"m")], broker_id=3)
    tube.remove_broker(1)
    assert shown() == ([2, 3], ["flights#2:2:2:1,3:2:2:1"])
    tube.stop()
    tube.start()
    assert tube.broker_ids == [2, 3]
    assert tube.bounds("flights", broker_id=3) == (0, 28)


def test_a_restarted_master_has_forgotten_its_clients(tube: EmbeddedTubeMQ) -> None:
    def join() -> Any:
        fields = {"clientId": "c", "groupName": "g", "hostName": "h", "sourceCount": 1, "nodeId": 0}
        with RawClient(tube.master_address) as client:
            beat = client.call(Method.CONSUMER_HEARTBEAT_V2, clientId="c", groupName="g")
            return beat.errCode, client.call(
                Method.CONSUMER_REGISTER_V2, **fields, topicList=["flights"]
            ).brokerConfigId

    address, (unknown, version) = tube.master_address, join()
    assert (unknown, join()[0]) == (411, 200)
    tube.restart_master()
    assert tube.master_address == address
    after, newer = join()
    assert after == 411
    assert newer != version


def test_topics_come_grow_and_go(tube: EmbeddedTubeMQ, to_broker: RawClient) -> None:
    def send(topic: str, partition: int) -> int:
        fields = {"clientId": "p", "flag": 0, "checkSum": -1, "sentAddr": 0, "data": b"m"}
        code: int = to_broker.call(Method.SEND_MESSAGE, **fields, topicName=topic, partitionId=partition).errCode
        return code

    assert send("clicks", 0) == 403
    tube.create_topic(TopicConfig("clicks"))
    assert (send("clicks", 0), send("clicks", 1), send("clicks", 10_000)) == (200, 403, 403)
    tube.grow_topic("clicks", partitions=2)
    assert (send("clicks", 1), send("clicks", 10_000)) == (200, 403)
    tube.grow_topic("clicks", stores=2)
    assert send("clicks", 10_001) == 200
    assert tube.bounds("clicks") == (0, 56)
    tube.stop_broker(2)
    tube.delete_topic("clicks")
    assert send("clicks", 0) == 403
    tube.create_topic(TopicConfig("clicks"))
    tube.start_broker(2)
    assert tube.bounds("clicks") == tube.bounds("clicks", broker_id=2) == (0, 0)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda tube: tube.create_topic(TopicConfig("flights", 2, 2)),
        lambda tube: tube.grow_topic("nowhere", stores=2),
        lambda tube: tube.grow_topic("flights", stores=1),
        lambda tube: tube.delete_topic("nowhere"),
        lambda tube: tube.stop_broker(3),
        lambda tube: tube.remove_broker(3),
        lambda tube: tube.bounds("flights", store_id=2),
        lambda tube: (tube.stop_broker(1), tube.bounds("flights")),
    ],
)
def test_mistakes_are_named(tube: EmbeddedTubeMQ, mistake: Any) -> None:
    with pytest.raises(ConfigurationError):
        mistake(tube)


def test_two_clusters_do_not_share_a_folder(tube: EmbeddedTubeMQ) -> None:
    with pytest.raises(ConfigurationError, match="another"):
        EmbeddedTubeMQ(tube.data_dir).start()


def test_a_start_that_fails_leaves_nothing_behind(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    taken = int(tube.master_address.rpartition(":")[2])
    threads = threading.active_count()
    other = EmbeddedTubeMQ(tmp_path / "other", master_port=taken)
    with pytest.raises(OSError, match="address"):
        other.start()
    assert threading.active_count() <= threads  # one of an earlier test may have ended
    with EmbeddedTubeMQ(tmp_path / "other"):
        pass


def test_stopping_ends_the_thread_and_may_be_repeated(tmp_path: Path) -> None:
    threads = threading.active_count()
    tube = EmbeddedTubeMQ(tmp_path)
    tube.stop()
    assert tube.start() is tube.start()
    tube.stop()
    tube.stop()
    assert threading.active_count() <= threads  # one of an earlier test may have ended
    with pytest.raises(RuntimeError, match="not running"):
        tube.bounds("flights")


@pytest.mark.parametrize("text", ["", "flights:x", "flights:1:2:3", "flights:0", "flights:1:10000", "9lives", "a b"])
def test_topics_that_cannot_be(text: str) -> None:
    with pytest.raises(ConfigurationError):
        TopicConfig.parse(text)
