"""The faults that only exist on a connection."""

from __future__ import annotations

import time

import pytest

from embedded_tubemq import ConnectionFault, EmbeddedTubeMQ
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.framing import encode_frame
from tubeclient.wire.methods import Method

SEND = {
    "clientId": "p",
    "topicName": "flights",
    "partitionId": 0,
    "flag": 0,
    "checkSum": -1,
    "sentAddr": 0,
    "data": b"m",
}


@pytest.mark.parametrize(("fault", "carried_out"), [(ConnectionFault.DROP_BEFORE, 0), (ConnectionFault.DROP_AFTER, 1)])
def test_a_connection_drops_before_or_after_the_call(
    tube: EmbeddedTubeMQ, to_broker: RawClient, fault: ConnectionFault, carried_out: int
) -> None:
    tube.broker_faults().break_connection(Method.SEND_MESSAGE, fault)
    to_broker.send(Method.SEND_MESSAGE, **SEND)
    with pytest.raises(ConnectionError):
        to_broker.next_frame()
    with RawClient(tube.broker_addresses[1]) as again:
        assert again.call(Method.SEND_MESSAGE, **SEND).appendOffset == 28 * carried_out


def test_the_nth_call_is_counted(tube: EmbeddedTubeMQ, to_broker: RawClient) -> None:
    tube.broker_faults().break_connection(Method.SEND_MESSAGE, nth=3)
    for _ in range(2):
        assert to_broker.call(Method.SEND_MESSAGE, **SEND).success
    to_broker.send(Method.SEND_MESSAGE, **SEND)
    with pytest.raises(ConnectionError):
        to_broker.next_frame()


def test_a_corrupt_frame_has_a_wrong_token(tube: EmbeddedTubeMQ, to_broker: RawClient) -> None:
    tube.broker_faults().break_connection(Method.SEND_MESSAGE, ConnectionFault.CORRUPT_FRAME)
    to_broker.send(Method.SEND_MESSAGE, **SEND)
    with pytest.raises(ProtocolError):
        to_broker.next_frame()


def test_silence_answers_later_requests_only(tube: EmbeddedTubeMQ, to_broker: RawClient) -> None:
    tube.broker_faults().break_connection(Method.SEND_MESSAGE, ConnectionFault.SILENCE)
    to_broker.send(Method.SEND_MESSAGE, **SEND)
    answer = to_broker.call(Method.SEND_MESSAGE, **SEND)
    assert answer.appendOffset == 28


def test_a_delayed_answer_holds_up_its_connection_and_nobody_else(tube: EmbeddedTubeMQ, to_broker: RawClient) -> None:
    faults = tube.broker_faults()
    faults.answer_delay_ms = 300
    spec = Method.SEND_MESSAGE.spec
    body = spec.request(**SEND).SerializeToString()
    frames = [encode_frame(n, encode_request(spec.service, spec.method_id, body, 10_000)) for n in (1, 2)]
    started = time.monotonic()
    to_broker.socket.sendall(b"".join(frames))
    while tube.bounds("flights").max_offset == 0:
        assert time.monotonic() < started + 10
    # The first call was carried out and its answer waits; the second has not even been looked at.
    assert tube.bounds("flights").max_offset == 28
    faults.answer_delay_ms = 0
    with RawClient(tube.broker_addresses[1]) as other:
        assert other.call(Method.SEND_MESSAGE, **SEND).appendOffset == 28
    assert to_broker.answer(Method.SEND_MESSAGE, 1).appendOffset == 0
    assert time.monotonic() - started >= 0.3
    assert to_broker.answer(Method.SEND_MESSAGE, 2).appendOffset == 56


def test_an_answer_that_is_due_after_the_stop_is_no_trouble(
    tube: EmbeddedTubeMQ, to_broker: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    tube.broker_faults().answer_delay_ms = 100
    to_broker.send(Method.SEND_MESSAGE, **SEND)
    deadline = time.monotonic() + 10
    while tube.bounds("flights").max_offset == 0:
        assert time.monotonic() < deadline
    tube.stop_broker()
    tube.start_broker()
    # Its answer is due later than the first one's.
    with RawClient(tube.broker_addresses[1]) as again:
        assert again.call(Method.SEND_MESSAGE, **SEND).success
    assert not caplog.records


def test_forced_codes_on_the_master(tube: EmbeddedTubeMQ, to_master: RawClient) -> None:
    tube.master_faults.force(Method.CONSUMER_REGISTER_V2, 430)
    fields = {
        "clientId": "c",
        "groupName": "g",
        "hostName": "h",
        "sourceCount": 1,
        "nodeId": 0,
        "topicList": ["flights"],
    }
    assert to_master.call(Method.CONSUMER_REGISTER_V2, **fields).errCode == 430
    assert to_master.call(Method.CONSUMER_REGISTER_V2, **fields).errCode == 200
