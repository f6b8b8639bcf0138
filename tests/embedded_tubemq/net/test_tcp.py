"""The wire: frames of any cut, order, errors of the RPC layer, and what ends a connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from embedded_tubemq.broker.offsets import Cursor
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient.errors import RemoteError, StandbyMaster
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.framing import BLOCK_BYTES, Frame, encode_frame
from tubeclient.wire.methods import BROKER_READ, BROKER_WRITE, MASTER, Method
from tubeclient.wire.proto import rpc_pb2

SEND = {"clientId": "p", "topicName": "flights", "flag": 0, "checkSum": -1, "sentAddr": 0}
READER = {"clientId": "c", "groupName": "g", "topicName": "flights", "partitionId": 0}


def status(frame: Frame) -> int:
    """The status in the response header, the second of the stream's messages; both are shorter than 128 bytes."""
    start = 1 + frame.stream[0]
    header = rpc_pb2.ResponseHeader.FromString(frame.stream[start + 1 : start + 1 + frame.stream[start]])
    return header.status


@pytest.fixture
def single(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("flights")]) as running:
        yield running


def test_requests_of_a_connection_are_answered_in_their_order(to_broker: RawClient) -> None:
    serials = [to_broker.send(Method.SEND_MESSAGE, **SEND, partitionId=0, data=b"%d" % n) for n in range(50)]
    offsets = [to_broker.answer(Method.SEND_MESSAGE, serial).appendOffset for serial in serials]
    assert offsets == [n * 28 for n in range(50)]


def test_requests_may_be_cut_anywhere(to_broker: RawClient) -> None:
    spec = Method.SEND_MESSAGE.spec
    body = spec.request(**SEND, partitionId=0, data=bytes(20_000)).SerializeToString()
    frame = encode_frame(77, encode_request(spec.service, spec.method_id, body, 10_000))
    for start in range(0, len(frame), 7_001):
        to_broker.socket.sendall(frame[start : start + 7_001])
    assert to_broker.answer(Method.SEND_MESSAGE, 77).success


def test_answers_are_cut_into_blocks_of_8192_bytes(single: EmbeddedTubeMQ) -> None:
    single.load("flights", (NewMessage(0, bytes(1000)) for _ in range(100)))
    with RawClient(single.broker_addresses[1]) as client:
        client.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0)
        client.send(Method.GET_MESSAGES, **READER)
        data = b""
        lengths: list[int] = []
        while not lengths or sum(lengths) + 12 + 4 * len(lengths) > len(data):
            data += client.socket.recv(1 << 20)
            count = int.from_bytes(data[8:12], "big")
            position, lengths = 12, []
            for _ in range(count):
                lengths.append(int.from_bytes(data[position : position + 4], "big") or BLOCK_BYTES)
                position += 4 + lengths[-1]
        assert set(lengths[:-1]) == {BLOCK_BYTES}
        assert 0 < lengths[-1] <= BLOCK_BYTES


def test_the_server_waits_for_a_slow_reader(single: EmbeddedTubeMQ) -> None:
    def committed() -> int:
        return single.inspect(lambda broker: broker.offsets.committed(Cursor("g", "flights", 0))) or 0

    count = 40_000
    single.load("flights", (NewMessage(0, b"%d" % n + bytes(1000)) for n in range(count)))
    with RawClient(single.broker_addresses[1]) as client:
        client.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0)
        # More than the socket's buffers hold, asked for before anything is read.
        serials = [client.send(Method.GET_MESSAGES, **READER, lastPackConsumed=True) for _ in range(100)]
        reached = -1
        while reached != committed():
            reached = committed()
            time.sleep(0.1)
        assert 0 < reached < count * 28
        serials += [client.send(Method.GET_MESSAGES, **READER, lastPackConsumed=True) for _ in range(40)]
        bodies = [
            message.payLoadData for serial in serials for message in client.answer(Method.GET_MESSAGES, serial).messages
        ]
    assert [int(body.rstrip(b"\0")) for body in bodies] == list(range(count))


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\x7f\xf4\xfe" + b"\0\0\0\1" + b"\0\0\x20\0"])
def test_a_wrong_token_or_frame_ends_the_connection_without_an_answer(
    to_broker: RawClient, tube: EmbeddedTubeMQ, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    to_broker.socket.sendall(data)
    with pytest.raises(ConnectionError):
        to_broker.next_frame()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("embedded_tubemq.net.server", "WARNING")
    assert "127.0.0.1:" in record.getMessage()
    with RawClient(tube.broker_addresses[1]) as other:
        assert other.call(Method.SEND_MESSAGE, **SEND, partitionId=0, data=b"m").success


def test_unknown_methods_and_broken_messages_are_fatal_but_keep_the_connection(to_broker: RawClient) -> None:
    for serial in (
        to_broker.send_body(BROKER_READ, 14, b""),
        to_broker.send_body(BROKER_READ, 15, b"\xff\xff"),
        to_broker.send_body(BROKER_READ, 15, b""),
    ):
        frame = to_broker.next_frame()
        assert frame.serial == serial
        assert status(frame) == rpc_pb2.ResponseHeader.FATAL
    assert to_broker.call(Method.SEND_MESSAGE, **SEND, partitionId=0, data=b"m").success


def test_a_service_must_offer_the_method(to_broker: RawClient, to_master: RawClient) -> None:
    body = Method.SEND_MESSAGE.spec.request(**SEND, partitionId=0, data=b"m").SerializeToString()
    for service in (BROKER_READ, BROKER_WRITE):
        assert to_broker.answer(Method.SEND_MESSAGE, to_broker.send_body(service, 13, body)).success
    for client, service, method_id in ((to_broker, MASTER, 13), (to_broker, MASTER, 20), (to_master, BROKER_READ, 17)):
        client.send_body(service, method_id, body)
        assert status(client.next_frame()) == rpc_pb2.ResponseHeader.ERROR


def test_a_standby_answers_with_the_exception_clients_look_for(tube: EmbeddedTubeMQ, to_master: RawClient) -> None:
    tube.master_faults.standby = True
    fields = {"clientId": "c", "groupName": "g", "brokerConfigId": -2, "topicMetaInfoId": -2}
    with pytest.raises(StandbyMaster) as caught:
        to_master.call(Method.PARTITION_METADATA, **fields)
    assert caught.value.exception_name == "org.apache.inlong.tubemq.corerpc.exception.StandbyException"


def test_a_handler_that_throws_answers_as_tubemq_does(
    tube: EmbeddedTubeMQ, to_broker: RawClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(topic: str, partition_id: int) -> None:
        raise RuntimeError("a mistake of the server")

    tube.inspect(lambda broker: monkeypatch.setattr(broker.stores, "of_partition", fail))
    with pytest.raises(RemoteError) as caught:
        to_broker.call(Method.SEND_MESSAGE, **SEND, partitionId=0, data=b"m")
    assert caught.value.exception_name == "java.lang.reflect.InvocationTargetException"
    assert caught.value.text == ""
    assert "a mistake of the server" in caplog.text
    monkeypatch.undo()
    assert to_broker.call(Method.SEND_MESSAGE, **SEND, partitionId=0, data=b"m").success


def test_a_connection_that_the_stop_overtakes_ends_too(tmp_path: Path) -> None:
    for _ in range(20):
        with EmbeddedTubeMQ(tmp_path / "tube") as running:
            client = RawClient(running.master_address)
        with client, pytest.raises(ConnectionError):
            client.next_frame()
