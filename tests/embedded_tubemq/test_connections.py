"""Connections: frames of any cut, order, slow readers, what ends a connection, and the faults that break one."""

from __future__ import annotations

import time

import pytest

from embedded_tubemq import ConnectionFault, EmbeddedTubeMQ, NewMessage
from embedded_tubemq.broker.offsets import Cursor
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.framing import encode_frame
from tubeclient.wire.methods import Method

SEND = {"clientId": "p", "topicName": "flights", "partitionId": 0, "flag": 0, "checkSum": -1, "sentAddr": 0}
READER = {"clientId": "c", "groupName": "g", "topicName": "flights", "partitionId": 0}


def frame_of(serial: int, body: bytes) -> bytes:
    spec = Method.SEND_MESSAGE.spec
    request = spec.request(**SEND, data=body).SerializeToString()
    return encode_frame(serial, encode_request(spec.service, spec.method_id, request, 10_000))


def test_requests_may_be_cut_anywhere_and_are_answered_in_their_order(to_broker: RawClient) -> None:
    frames = b"".join(frame_of(serial, bytes(20_000)) for serial in range(50))
    for start in range(0, len(frames), 77_001):
        to_broker.socket.sendall(frames[start : start + 77_001])
    offsets = [to_broker.answer(Method.SEND_MESSAGE, serial).appendOffset for serial in range(50)]
    assert offsets == [n * 28 for n in range(50)]


def test_the_server_waits_for_a_slow_reader(tube: EmbeddedTubeMQ, to_broker: RawClient) -> None:
    def committed() -> int:
        return tube.inspect(lambda broker: broker.offsets.committed(Cursor("g", "flights", 0))) or 0

    count = 40_000
    tube.load("flights", (NewMessage(0, b"%d" % n + bytes(1000)) for n in range(count)))
    to_broker.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0)
    # More than the socket's buffers hold, asked for before anything is read.
    serials = [to_broker.send(Method.GET_MESSAGES, **READER, lastPackConsumed=True) for _ in range(100)]
    reached = -1
    while reached != committed():
        reached = committed()
        time.sleep(0.1)
    assert 0 < reached < count * 28
    serials += [to_broker.send(Method.GET_MESSAGES, **READER, lastPackConsumed=True) for _ in range(40)]
    answers = (to_broker.answer(Method.GET_MESSAGES, serial) for serial in serials)
    bodies = [message.payLoadData for answer in answers for message in answer.messages]
    assert [int(body.rstrip(b"\0")) for body in bodies] == list(range(count))


def test_a_connection_that_the_stop_overtakes_ends_too(tube: EmbeddedTubeMQ) -> None:
    for _ in range(20):
        client = RawClient(tube.master_address)
        tube.restart_master()
        with client, pytest.raises(ConnectionError):
            client.next_frame()


@pytest.mark.parametrize(("fault", "carried_out"), [(ConnectionFault.DROP_BEFORE, 1), (ConnectionFault.DROP_AFTER, 2)])
def test_a_connection_drops_before_or_after_the_nth_call(
    tube: EmbeddedTubeMQ, to_broker: RawClient, fault: ConnectionFault, carried_out: int
) -> None:
    tube.broker_faults().break_connection(Method.SEND_MESSAGE, fault, nth=2)
    assert to_broker.call(Method.SEND_MESSAGE, **SEND, data=b"m").success
    to_broker.send(Method.SEND_MESSAGE, **SEND, data=b"m")
    with pytest.raises(ConnectionError):
        to_broker.next_frame()
    assert tube.bounds("flights").max_offset == 28 * carried_out
