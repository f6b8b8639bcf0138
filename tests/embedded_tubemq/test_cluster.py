"""A cluster's life: starts and stops, clean and not, topics that come, grow and go, its ports and connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient.errors import ConfigurationError
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.framing import encode_frame
from tubeclient.wire.methods import Method

READER = {"clientId": "c", "groupName": "g", "topicName": "flights", "partitionId": 0}


def register(address: str, **fields: Any) -> Any:
    with RawClient(address) as client:
        return client.call(Method.PARTITION_REGISTER, **({**READER, "opType": 31, "readStatus": 0} | fields))


@pytest.mark.parametrize(("clean", "position"), [(True, 84), (False, 28)])
def test_in_flight_after_a_stop_or_crash(tmp_path: Path, clean: bool, position: int) -> None:
    """A clean stop commits what is in flight; a crash does not."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("flights")]) as tube:
        tube.load("flights", (NewMessage(0, b"m") for _ in range(3)))
        address = tube.broker_addresses[1]
        with RawClient(address) as client:
            client.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0, currOffset=28)
            assert len(client.call(Method.GET_MESSAGES, **READER).messages) == 2
        # What a crash keeps is what was saved before it, once a second.
        deadline = time.monotonic() + 10
        while not (tmp_path / "broker-1" / "offsets.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        tube.stop_broker(clean=clean)
        tube.start_broker()
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
    member = {"clientId": "c", "groupName": "g"}
    to_master.call(Method.CONSUMER_REGISTER_V2, **member, hostName="h", sourceCount=1, nodeId=0, topicList=["flights"])

    def shown() -> tuple[list[int], list[str]]:
        answer = to_master.call(Method.PARTITION_METADATA, **member, brokerConfigId=-1, topicMetaInfoId=-1)
        return [int(text.split(":")[0]) for text in answer.brokerConfigList], list(answer.topicMetaInfoList)

    assert tube.add_broker() == 3
    assert shown() == ([1, 2, 3], ["flights#1:2:2:1,2:2:2:1,3:2:2:1"])
    tube.load("flights", [NewMessage(0, b"m")], broker_id=3)
    tube.remove_broker(1)
    assert shown() == ([2, 3], ["flights#2:2:2:1,3:2:2:1"])
    tube.stop()
    tube.start()
    assert tube.broker_ids == [2, 3]
    assert tube.bounds("flights", broker_id=3) == (0, 28)


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
        lambda tube: tube.bounds("flights", store_id=2),
        lambda tube: (tube.stop_broker(1), tube.bounds("flights")),
        lambda tube: EmbeddedTubeMQ(tube.data_dir).start(),
        lambda tube: EmbeddedTubeMQ(tube.data_dir, master_port=70_000),
        lambda tube: EmbeddedTubeMQ(tube.data_dir, brokers=3, broker_port=65_534),
        *(
            lambda _, text=text: TopicConfig.parse(text)
            for text in ("", "flights:x", "flights:1:2:3", "flights:0", "flights:1:10000", "9lives", "a b")
        ),
    ],
)
def test_mistakes_are_named(tube: EmbeddedTubeMQ, mistake: Any) -> None:
    with pytest.raises(ConfigurationError):
        mistake(tube)


def test_a_start_that_fails_and_a_stop_leave_no_thread(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    taken = int(tube.master_address.rpartition(":")[2])
    threads = threading.active_count()
    with pytest.raises(OSError, match="in use"):
        EmbeddedTubeMQ(tmp_path / "other", master_port=taken).start()
    with EmbeddedTubeMQ(tmp_path / "other") as other:
        assert other.start() is other
    other.stop()
    assert threading.active_count() <= threads  # one of an earlier test may have ended
    with pytest.raises(RuntimeError, match="not running"):
        other.bounds("flights")


@contextmanager
def given_away(port: int) -> Iterator[None]:
    """Somebody else has the port."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        yield


@pytest.mark.parametrize("clean", [True, False])
def test_ports_of_a_stopped_broker(tmp_path: Path, clean: bool) -> None:
    """A stopped broker's ports stay reserved until it is removed or the cluster ends."""
    with EmbeddedTubeMQ(tmp_path, brokers=3) as tube:
        addresses, webs = tube.broker_addresses, tube.broker_web_ports
        ports = {one: (int(addresses[one].rpartition(":")[2]), webs[one]) for one in addresses}
        tube.stop_broker(2, clean=clean)
        for port in ports[2]:
            with pytest.raises(OSError, match="in use"), given_away(port):
                pass
            with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 5):
                pass
        tube.start_broker(2)
        assert (tube.broker_addresses, tube.broker_web_ports) == (addresses, webs)
        for port in ports[2]:
            socket.create_connection(("127.0.0.1", port), 5).close()
        tube.remove_broker(3)
        with given_away(ports[3][0]), given_away(ports[3][1]):
            pass
        tube.stop_broker(1, clean=clean)
    with given_away(ports[1][0]), given_away(ports[1][1]):
        pass


def test_requests_cut_anywhere(to_broker: RawClient) -> None:
    """A broker answers requests in their order, wherever the stream is cut."""
    spec = Method.SEND_MESSAGE.spec
    fields = {"clientId": "p", "topicName": "flights", "partitionId": 0, "flag": 0, "checkSum": -1, "sentAddr": 0}
    request = spec.request(**fields, data=bytes(20_000)).SerializeToString()
    stream = encode_request(spec.service, spec.method_id, request, 10_000)
    frames = b"".join(encode_frame(serial, stream) for serial in range(50))
    for start in range(0, len(frames), 77_001):
        to_broker.socket.sendall(frames[start : start + 77_001])
    offsets = [to_broker.answer(Method.SEND_MESSAGE, serial).appendOffset for serial in range(50)]
    assert offsets == [n * 28 for n in range(50)]


def test_a_connection_that_the_stop_overtakes_ends_too(tube: EmbeddedTubeMQ) -> None:
    for _ in range(20):
        client = RawClient(tube.master_address)
        tube.restart_master()
        with client, pytest.raises(ConnectionError):
            client.next_frame()
