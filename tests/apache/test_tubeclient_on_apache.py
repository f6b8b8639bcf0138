"""Our client against Apache's own servers, with Apache's Java client on the other side."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from tests.apache.assorted import send_assorted
from tests.apache.java_client import JavaBalanceConsumer, JavaProducer
from tests.apache.server import ApacheTubeMQ
from tests.group_page import group_page
from tests.waiting import wait_for
from tubeclient import (
    ClientSettings,
    ClusterView,
    GroupMembership,
    NodeIdConflict,
    OffsetLookup,
    OffsetRange,
    PartitionKey,
    Producer,
    RangeReader,
    SourceCountConflict,
    StoreKey,
    TopicNotDeployed,
    assign,
    fetch_view,
    reader_groups_of,
)
from tubeclient.wire.payload import decode_payload, parse_attributes

pytestmark = pytest.mark.apache

GROUPS = reader_groups_of("tubeclient_tests")


def ends(settings: ClientSettings, view: ClusterView) -> dict[StoreKey, int]:
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        return {store: bounds.max_offset for store, bounds in lookup.bounds(view).items()}


def read(settings: ClientSettings, view: ClusterView, piece: OffsetRange) -> list[tuple[int, bytes, str]]:
    """(message id, body, attribute text) of a range."""
    with RangeReader(settings, GROUPS) as reader:
        return [
            (message.messageId, *decode_payload(message.payLoadData, message.flag))
            for pack in reader.read(view.broker_of(piece.partition), piece)
            for message in pack.messages
        ]


def test_what_javas_producer_wrote_our_reader_reads_byte_for_byte(
    settings: ClientSettings, java_producer: Callable[..., JavaProducer]
) -> None:
    view = fetch_view(settings, ["java_to_py"], GROUPS)
    before = ends(settings, view)
    sent: dict[str, list[tuple[int, bytes, dict[str, str]]]] = {}
    for body, (where, attributes, tag, time) in send_assorted(java_producer("java_to_py"), "java_to_py", 60).items():
        system = {"$msgType$": tag, "$msgTime$": time} if tag and time else {}
        sent.setdefault(where.partition_key, []).append((where.message_id, body, {**system, **attributes}))
    after = ends(settings, view)
    got = {
        str(key): [
            (message_id, body, parse_attributes(text))
            for message_id, body, text in read(settings, view, OffsetRange(key, before[key.store], after[key.store]))
        ]
        for key in view.partitions()
    }
    assert {key: messages for key, messages in got.items() if messages} == sent


def test_what_our_producer_wrote_javas_consumer_reads_byte_for_byte(
    producer: Producer, java_consumer: Callable[..., JavaBalanceConsumer]
) -> None:
    producer.publish(["py_to_java"])
    sent = {}
    for number in range(60):
        body = os.urandom(number * 100) + b"%d" % number
        tag, time = (f"tag{number % 3}", "202611211030") if number % 2 else ("", "")
        attributes = {"number": str(number), "text": "grün"} if number % 3 else {}
        result = producer.send("py_to_java", body, tag=tag, time=time, attributes=attributes)
        sent[body] = (str(result.partition), result.message_id, attributes, tag or None, time or None)
    consumer = java_consumer("py_to_java_readers").start({"py_to_java": []}, source_count=1, node_id=0)
    for key in consumer.await_partitions(8):
        consumer.connect(key)
    got = {
        message.payload: (
            key,
            message.message_id,
            {name: value for name, value in message.attributes.items() if not name.startswith("$")},
            message.tag,
            message.msg_time,
        )
        for key, message in consumer.drain(len(sent))
    }
    assert got == sent


def test_random_cuts_under_a_running_producer_give_each_message_once_and_in_order(
    settings: ClientSettings, producer: Producer
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    producer.publish(["apache_shared"])
    sent: list[tuple[PartitionKey, int, bytes]] = []
    stop = threading.Event()

    def produce() -> None:
        for number in itertools.count():
            futures = [producer.submit("apache_shared", b"%08d" % (number * 100 + n) + bytes(900)) for n in range(100)]
            for n, future in enumerate(futures):
                result = future.result(30)
                assert result.offset is not None
                sent.append((result.partition, result.offset, b"%08d" % (number * 100 + n)))
            if stop.wait(0.01):
                return

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        wait_for(lambda: len(sent) > 6_000, "a backlog")
        view = fetch_view(settings, ["apache_shared"], GROUPS)
        targets = ends(settings, view)
        got: list[tuple[PartitionKey, bytes]] = []
        for key in view.partitions():
            last = targets[key.store] // 28
            cuts = sorted({0, last, *(rng.randrange(last) for _ in range(20))})
            for start, end in itertools.pairwise(cuts):
                pieces = read(settings, view, OffsetRange(key, start * 28, end * 28))
                got += [(key, body[:8]) for _, body, _ in pieces]
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    expected = sorted((key, offset, body) for key, offset, body in sent if offset < targets[key.store])
    assert got == [(key, body) for key, _, body in expected]


def test_offsets_over_http_and_over_the_protocol_are_the_same(settings: ClientSettings, producer: Producer) -> None:
    producer.publish(["apache_single"])
    for number in range(20):
        producer.send("apache_single", b"%d" % number)
    view = fetch_view(settings, ["apache_single"], GROUPS)
    with (
        closing(OffsetLookup(settings, GROUPS)) as by_http,
        closing(OffsetLookup(replace(settings, master_web_port=1), GROUPS)) as by_protocol,
    ):
        found = by_http.bounds(view)
        assert found == by_protocol.bounds(view)
    assert sum(bounds.max_offset for bounds in found.values()) >= 20 * 28


def test_a_partition_that_javas_consumer_holds_is_read_in_the_next_reader_group(
    settings: ClientSettings, producer: Producer, java_consumer: Callable[..., JavaBalanceConsumer]
) -> None:
    producer.publish(["apache_single"])
    result = producer.send("apache_single", b"held")
    assert result.offset is not None
    holder = java_consumer(GROUPS[0]).start({"apache_single": []}, source_count=1, node_id=0)
    holder.await_partitions(8)
    holder.connect(str(result.partition))
    view = fetch_view(settings, ["apache_single"], GROUPS[1:])
    piece = OffsetRange(result.partition, result.offset, result.offset + 28)
    assert [body for _, body, _ in read(settings, view, piece)] == [b"held"]
    assert holder.connected() == {str(result.partition)}


def test_the_master_shows_the_nodes_and_refuses_others(
    apache: ApacheTubeMQ, settings: ClientSettings, java_consumer: Callable[..., JavaBalanceConsumer]
) -> None:
    membership = GroupMembership(settings, "members", ["apache_stream"], 3)
    rivals = [GroupMembership(settings, "members", ["apache_stream"], count) for count in (3, 2)]

    def shown() -> dict[int, int]:
        return {node_id: len(keys) for node_id, keys in group_page(apache.master_web_port, "members").items()}

    try:
        plan = assign("modulo", membership.join().partitions(), 3)
        assert sum(map(len, plan)) == 8
        membership.report(dict(enumerate(plan)))
        wait_for(lambda: sum(shown().values()) == 8, "the master to show what the nodes were dealt")
        assert shown() == {node_id: len(keys) for node_id, keys in enumerate(plan)}
        with pytest.raises(NodeIdConflict, match=r"members node 0 of 3.*430"):
            rivals[0].join()
        with pytest.raises(SourceCountConflict, match=r"members node 0 of 2.*429"):
            rivals[1].join()
    finally:
        for member in (*rivals, membership):
            member.close()
    java_consumer("members").start({"apache_stream": []}, source_count=2, node_id=1)  # free again at once


def test_an_unknown_topic_is_named(settings: ClientSettings) -> None:
    membership = GroupMembership(settings, "members_of_nothing", ["no_such_topic"], 1)
    with closing(membership), pytest.raises(TopicNotDeployed, match=r"no_such_topic.*431"):
        membership.join()


def test_reading_leaves_the_groups_own_position_alone(
    apache: ApacheTubeMQ, settings: ClientSettings, producer: Producer
) -> None:
    producer.publish(["apache_stream"])
    for number in range(40):
        producer.send("apache_stream", b"%d" % number)
    view = fetch_view(settings, ["apache_stream"], GROUPS)
    after = ends(settings, view)
    for key in view.partitions():
        read(settings, view, OffsetRange(key, 0, after[key.store]))
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        assert lookup.group_positions(view, "tubeclient_tests") == {}
        assert lookup.group_positions(view, GROUPS[0]) != {}
