"""No wait of a producer is without an end: for room, for answers, for the rest at flush and close."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.stored import bodies
from tests.waiting import wait_for
from tubeclient import ClientClosed, ClientSettings, ConnectionLost, DeadlineExceeded, Producer, SendResult
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.producing.sender import InFlight
from tubeclient.wire.envelope import encode_response
from tubeclient.wire.methods import Method
from tubeclient.wire.proto.broker_pb2 import SendMessageResponseB2P

LONG_MS = 60_000


def refuse(cluster: EmbeddedTubeMQ, refusing: bool) -> None:
    """Let all brokers refuse messages, so that they are tried again and again, or no longer."""
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).stop_writing = refusing


@pytest.fixture
def stuck(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> tuple[Producer, Future[SendResult]]:
    """A producer that may have one message on its way, and that message, which no broker takes."""
    producer = Producer(replace(settings, retry_limit_ms=LONG_MS), max_in_flight=1)
    producer.publish(["clicks"])
    refuse(cluster, True)
    return producer, producer.submit("clicks", b"first")


def test_a_message_without_room_is_an_error_in_time(
    cluster: EmbeddedTubeMQ, stuck: tuple[Producer, Future[SendResult]]
) -> None:
    producer, first = stuck
    late = producer.submit_many("clicks", [b"second", b"third"], timeout_ms=100)
    for future in late:
        with pytest.raises(DeadlineExceeded, match=r"topic clicks could not be sent in time: 1 are in flight"):
            future.result(0)
    refuse(cluster, False)
    assert first.result(30)
    assert producer.send("clicks", b"fourth")
    producer.close()
    assert bodies(cluster) == {b"first": 1, b"fourth": 1}


def test_flush_timeout(cluster: EmbeddedTubeMQ, stuck: tuple[Producer, Future[SendResult]]) -> None:
    """A flush that takes too long raises an error, and its messages are still delivered."""
    producer, first = stuck
    with pytest.raises(DeadlineExceeded, match="still in flight"):
        producer.flush(timeout_ms=100)
    refuse(cluster, False)
    producer.close()  # waits for it
    assert first.result(0)
    with pytest.raises(ClientClosed, match="make a new one"):
        producer.flush()


def test_after_a_flush_every_future_is_settled(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """Though answers are settled by the batch, and a callback of the first message holds up those behind it."""
    answer = threading.Event()
    with Producer(settings) as producer:
        producer.publish(["single"])
        refuse(cluster, True)
        first = producer.submit_many("single", [b"first"] * 2)  # one to each broker
        for future in first:
            future.add_done_callback(lambda _: answer.wait(10))
        refuse(cluster, False)
        wait_for(lambda: all(future.done() for future in first), "both threads that read answers to be held up")
        futures = producer.submit_many("single", [b"x"] * 20)
        for future in futures:
            future.add_done_callback(lambda _: time.sleep(0.02))
        wait_for(lambda: bodies(cluster, "single")[b"x"] == 20, "messages to be stored")
        answer.set()
        producer.flush()
        assert all(future.done() for future in futures)


def test_closing_gives_up_what_is_not_answered_in_time(
    cluster: EmbeddedTubeMQ, stuck: tuple[Producer, Future[SendResult]]
) -> None:
    producer, first = stuck
    producer.close(timeout_ms=100)
    with pytest.raises(ClientClosed, match=r"closed before a message to topic clicks was answered"):
        first.result(0)


def test_fault_during_close(stuck: tuple[Producer, Future[SendResult]]) -> None:
    """A fault while the producer closes raises ClientClosed and not DeadlineExceeded."""
    producer, first = stuck
    assert isinstance(first, InFlight)
    sender = producer._sender
    wait_for(lambda: first.attempts, "the first attempt")
    with sender.lock:  # as close does, before it wakes the thread that gives up the rest
        sender._closed = True
        number = first.number
    sender._failed(first, number, ConnectionLost("x"))
    producer.close(timeout_ms=0)
    with pytest.raises(ClientClosed, match=r"closed before a message to topic clicks was answered"):
        first.result(0)


def test_closing_ends_the_wait_for_room(cluster: EmbeddedTubeMQ, stuck: tuple[Producer, Future[SendResult]]) -> None:
    producer, _ = stuck
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(producer.submit, "clicks", b"second")
        producer.close(timeout_ms=100)
        try:
            error = waiting.result(30).exception(0)
        except ClientClosed as raised:  # it came after the producer had been closed
            error = raised
    assert isinstance(error, ClientClosed)


def test_missing_answer(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """A message without an answer fails at its timeout."""
    with Producer(replace(settings, rpc_timeout_ms=LONG_MS)) as producer:
        producer.publish(["clicks"])
        for broker_id in cluster.broker_ids:
            cluster.broker_faults(broker_id).answer_delay_ms = LONG_MS
        with pytest.raises(DeadlineExceeded, match=r"topic clicks"):
            producer.send("clicks", b"x", timeout_ms=300)
        future = producer.submit("clicks", b"y", timeout_ms=300)
        with pytest.raises(DeadlineExceeded, match="gave up sending to topic clicks after 1 attempts: no answer"):
            future.result(30)
        producer.flush(timeout_ms=0)


def test_refused_before_missing_answer(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """The error names the refusal even if the message's time ends before its last answer."""
    with Producer(replace(settings, rpc_timeout_ms=LONG_MS)) as producer:
        producer.publish(["clicks"])
        refuse(cluster, True)
        future = producer.submit("clicks", b"x", timeout_ms=3_000)
        assert isinstance(future, InFlight)
        wait_for(lambda: future.fault is not None, "a refusal")
        for broker_id in cluster.broker_ids:
            cluster.broker_faults(broker_id).answer_delay_ms = LONG_MS
        with pytest.raises(DeadlineExceeded, match=r"the server answered 503 .*; then no answer in time to a message"):
            future.result(30)
        producer.flush(timeout_ms=0)


def test_late_result_of_attempt(settings: ClientSettings) -> None:
    """A late result of a finished attempt changes nothing."""
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        future = producer.submit("clicks", b"x")
        assert isinstance(future, InFlight)
        found = future.result(30)
        other = SendMessageResponseB2P(success=True, errCode=200, errMsg="", messageId=found.message_id + 1)
        for late in (
            [encode_response(Method.SEND_MESSAGE.spec.method_id, other.SerializeToString())],
            ConnectionLost("x"),
        ):
            producer._sender._answered([(future, 0, found.partition)], late)
        assert future.result(0) == found
        assert not producer._sender.given_up


@pytest.mark.parametrize(
    "refused", [False, True]
)  # called by the thread that reads answers, or by the one that gives up
def test_a_callback_may_close_the_producer(cluster: EmbeddedTubeMQ, settings: ClientSettings, refused: bool) -> None:
    producer = Producer(settings)
    producer.publish(["clicks"])
    refuse(cluster, refused)
    closed = threading.Event()

    def close(_: object) -> None:
        producer.close(timeout_ms=1_000)
        closed.set()

    producer.submit("clicks", b"x", timeout_ms=1_000).add_done_callback(close)
    assert closed.wait(30)
    assert bodies(cluster) == ({} if refused else {b"x": 1})
    # A thread that closed its own producer ends after that.
    wait_for(lambda: not any(one.name.startswith("tubeclient-") for one in threading.enumerate()), "threads to end")


def test_settled_once_if_callback_closes(settings: ClientSettings) -> None:
    """A message is settled once even if the callback of the previous one closes the producer."""
    producer = Producer(settings)
    producer.publish(["clicks"])
    producer.send("clicks", b"x")
    sender = producer._sender
    both = [InFlight(OutgoingMessage("nowhere", b"x", 0, "", ""), deadline=0.0, submitted=0.0) for _ in range(2)]
    both[0].add_done_callback(lambda _: producer.close(timeout_ms=0))
    with sender.lock:
        sender._on_the_way.update(both)
    sender._attempt(both)
    assert [type(one.exception(0)) for one in both] == [DeadlineExceeded, ClientClosed]
