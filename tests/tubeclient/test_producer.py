"""Sending: where messages go, what they carry, what happens when the broker or the network does not play along."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.refusal import ConnectionFault
from tests.tubeclient.stored import bodies, stored
from tubeclient import (
    ClientSettings,
    ConfigurationError,
    OutgoingMessage,
    Producer,
)
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import decode_payload, java_string_hash


def test_a_message_arrives_with_its_attributes_and_tag(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        result = producer.send("clicks", b"hello", tag="web", time="202601311259", attributes={"user": "7"})
    (record,) = stored(cluster)[result.partition.store]
    assert (record.partition_id, record.index_offset, record.message_id) == (
        result.partition.partition_id,
        result.offset,
        result.message_id,
    )
    assert decode_payload(record.payload, record.flag) == (b"hello", "$msgType$=web,$msgTime$=202601311259,user=7")
    assert record.tag_hash == java_string_hash("web")


def test_many_messages_go_round_all_partitions_each_once(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings, max_in_flight=50) as producer:
        producer.publish(["clicks"])
        with ThreadPoolExecutor(4) as threads:
            futures = list(threads.map(lambda n: producer.submit("clicks", b"%d" % n), range(800)))
        results = [future.result(30) for future in futures]
    assert Counter(result.partition for result in results) == {result.partition: 100 for result in results}
    assert len({result.partition for result in results}) == 8
    assert bodies(cluster) == {b"%d" % n: 1 for n in range(800)}


@pytest.mark.parametrize("code", [403, 419, 500, 503])
def test_a_refused_message_goes_elsewhere(cluster: EmbeddedTubeMQ, settings: ClientSettings, code: int) -> None:
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).force(Method.SEND_MESSAGE, code, times=3)
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        futures = [producer.submit("clicks", b"%d" % n) for n in range(20)]
        assert all(future.result(30) for future in futures)
    assert bodies(cluster) == {b"%d" % n: 1 for n in range(20)}


@pytest.mark.parametrize("fault", list(ConnectionFault))
def test_a_broken_connection_loses_no_message(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, fault: ConnectionFault
) -> None:
    cluster.broker_faults(1).break_connection(Method.SEND_MESSAGE, fault, nth=5)
    with Producer(replace(settings, rpc_timeout_ms=500)) as producer:
        producer.publish(["clicks"])
        futures = [producer.submit("clicks", b"%d" % n) for n in range(40)]
        assert all(future.result(30) for future in futures)
    assert set(bodies(cluster)) == {b"%d" % n for n in range(40)}


def test_a_broker_restart_loses_no_message(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        futures = [producer.submit("clicks", b"a%d" % n) for n in range(40)]
        cluster.stop_broker(1)
        futures += [producer.submit("clicks", b"b%d" % n) for n in range(40)]
        cluster.start_broker(1)
        assert all(future.result(30) for future in futures)
    assert len(bodies(cluster)) == 80


def test_messages_a_cluster_would_refuse_are_not_sent(settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        with pytest.raises(ConfigurationError, match=r"empty message.*clicks"):
            producer.submit("clicks", b"")
        with pytest.raises(ConfigurationError, match=r"1048577 bytes.*topic clicks's limit of 1048576 bytes"):
            producer.submit("clicks", bytes((1 << 20) + 1))
        with pytest.raises(ConfigurationError, match="topic single was not published"):
            producer.submit("single", b"x")
        with pytest.raises(ConfigurationError, match="attribute"):
            producer.submit("clicks", b"x", attributes={"a,b": "c"})
        assert producer.send("clicks", bytes(1 << 20)).offset == 0


@pytest.mark.parametrize("time", ["not-a-time", "202602301259", "20260131125", "\uff12" * 12, 202601311259, None])
def test_a_time_that_no_reader_could_read_is_not_sent(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, time: Any
) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        for send in (producer.send, producer.submit, OutgoingMessage.of):
            with pytest.raises(ConfigurationError, match=f"like 202601311259 .*a datetime; not {time!r}"):
                send("clicks", b"x", time=time)
        with pytest.raises(ConfigurationError, match="yyyyMMddHHmm"):
            producer.submit_many("clicks", [], time=time)
    assert bodies(cluster) == {}


def test_the_time_of_a_message_may_be_a_datetime(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        moment = datetime(2026, 1, 31, 12, 59, 58, tzinfo=UTC)
        for time, text in ((moment, "202601311259"), (moment.astimezone(timezone(timedelta(hours=8))), "202601312059")):
            result = producer.send("clicks", b"x", time=time)
            record = next(r for r in stored(cluster)[result.partition.store] if r.message_id == result.message_id)
            assert decode_payload(record.payload, record.flag)[1] == f"$msgTime$={text}"


MESSAGES: list[list[Any]] = [
    [("single",)],
    [("single", b"x")],
    [("single", b"x", 0, "", "", "")],  # the last one was taken for the answer, and the producer sent nothing more
    [None],
    ["single"],
    [b"x"],
]


@pytest.mark.parametrize("messages", MESSAGES, ids=repr)
def test_messages_that_are_none_are_refused_before_anything_is_sent(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[Any]
) -> None:
    good = OutgoingMessage.of("single", b"good")
    with Producer(settings) as producer:
        producer.publish(["single"])
        with pytest.raises(ConfigurationError, match=r"a message must be an OutgoingMessage, as .*\.of\(.*; not "):
            producer.submit_each([good, *messages])
        assert producer.send("single", b"after").offset is not None
    assert bodies(cluster, "single") == {b"after": 1}
