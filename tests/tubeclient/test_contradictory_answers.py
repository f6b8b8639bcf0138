"""Brokers, or something on the way to them, that double messages, leave some out or mix them up: what is noticed, and
that nothing is called wrong that Apache's brokers do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import NOBODY, Peer
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient import consuming
from tests.tubeclient.stored import records_of
from tests.tubeclient.test_read_range import Bench, assert_no_gaps, instead, payloads
from tubeclient import ClientSettings, ContradictoryAnswers, OffsetRange, PartitionKey, RangeReader, fetch_view
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, partitions=2, seed=1)


def rearranged(answer: Any, change: Callable[[list[Any]], None]) -> None:
    messages = [broker_pb2.TransferedMessage.FromString(one.SerializeToString()) for one in answer.messages]
    change(messages)
    del answer.messages[:]
    answer.messages.extend(messages)


def doubled(answer: Any, _: int = 0) -> None:
    if answer.messages:
        rearranged(answer, lambda messages: messages.insert(3, messages[0]))


def doubled_once(answer: Any, seen: int) -> None:
    if seen == 1:
        doubled(answer)


def doubled_anywhere(answer: Any, seen: int) -> None:
    """Another message each time."""
    if answer.messages:
        rearranged(answer, lambda messages: messages.insert(0, messages[seen]))


def one_left_out_once(answer: Any, seen: int) -> None:
    if seen == 1:
        rearranged(answer, lambda messages: messages.pop(3))


def one_left_out_anywhere(answer: Any, seen: int) -> None:
    if answer.messages:
        rearranged(answer, lambda messages: messages.pop(seen))


def one_of_the_pack_before(answer: Any, seen: int) -> None:
    """The second answer begins with the first message of all, and the message that should be there is gone."""
    if seen == 1:
        FIRST.append(answer.messages[0].SerializeToString())
    if seen == 2:
        rearranged(answer, lambda messages: messages.__setitem__(0, broker_pb2.TransferedMessage.FromString(FIRST[0])))


FIRST: list[bytes] = []


@pytest.mark.parametrize(
    ("change", "partitions"),
    [(doubled_once, 1), (doubled_once, 2), (one_left_out_once, 1), (one_of_the_pack_before, 2)],
)
def test_what_was_changed_once_is_read_again(
    tmp_path: Path, change: Callable[[Any, int], None], partitions: int
) -> None:
    FIRST.clear()
    bench = Bench(tmp_path, partitions, seed=1)
    bench.append(400, 30_000)
    instead(bench.broker, Method.GET_MESSAGES, change)
    piece = bench.range(0, 0, 400)
    emitted = bench.read(piece, alone=partitions == 1)
    assert payloads(emitted) == bench.expected(piece)
    assert_no_gaps(emitted, piece)


@pytest.mark.parametrize(
    ("change", "partitions", "reason"),
    [
        (doubled, 1, r"51 messages came where at most 50 are possible"),
        (doubled_anywhere, 2, r"a pack has a message twice"),
        (one_left_out_anywhere, 1, r"1 index entries came without a message"),
    ],
)
def test_repeated_contradiction(
    tmp_path: Path, change: Callable[[Any, int], None], partitions: int, reason: str
) -> None:
    """ContradictoryAnswers names the place if each answer is wrong."""
    bench = Bench(tmp_path, partitions, seed=1)
    bench.append(50)
    instead(bench.broker, Method.GET_MESSAGES, change)
    before = bench.simulation.now_ms
    with pytest.raises(ContradictoryAnswers, match=reason) as caught:
        bench.read(bench.range(0, 0, 50), alone=partitions == 1)
    text = str(caught.value)
    assert "partition 1:clicks:0, offsets [0, 1400): the answers of broker 1:127.0.0.1:8123" in text
    assert "restart the broker" in text
    assert caught.value.partition == "1:clicks:0"
    assert bench.simulation.now_ms - before < 10_000  # not the retry limit


def test_messages_on_wrong_side_of_end(tmp_path: Path) -> None:
    """Where a pack goes past the range, the first message behind its end has a place in the pack: here too late."""
    bench = Bench(tmp_path, partitions=2, seed=1)
    bench.append(60)
    last = [one for one in records_of(bench.store, 0, 60 * 28) if one.partition_id == 0][-1]

    def last_first(answer: Any, _: int) -> None:
        if answer.messages and answer.currOffset:
            rearranged(answer, lambda messages: messages.sort(key=lambda one: one.messageId != last.message_id))

    instead(bench.broker, Method.GET_MESSAGES, last_first)
    with pytest.raises(
        ContradictoryAnswers, match=r"30 messages came before offset 112 and 1 from that offset on, where at most 4"
    ):
        bench.read(bench.range(0, 0, 4))


def test_index_entries_without_message(tmp_path: Path) -> None:
    """A broker skips records that it finds damaged on its disk, and those that expired."""
    bench = Bench(tmp_path, partitions=1, seed=1)
    bench.append(50)
    bench.store.expire_data(20 * 28)
    piece = bench.range(0, 0, 50)
    emitted = bench.read(piece, alone=True)
    assert payloads(emitted) == bench.expected(piece)
    assert_no_gaps(emitted, piece)
    assert bench.simulation.calls.count(Method.PARTITION_REGISTER) == 3  # two readings, and the partition's release


@pytest.fixture
def group(tmp_path: Path) -> consuming.Bench:
    bench = consuming.Bench(tmp_path)
    bench.send(60)
    return bench


@pytest.mark.parametrize("bad_messages", ["fail", "keep"])
def test_a_consumer_reads_again_too(group: consuming.Bench, bad_messages: str) -> None:
    client, key = group.client(bad_messages=bad_messages), group.key()
    instead(group.brokers[1], Method.GET_MESSAGES, doubled_once)
    client.connect(key)
    assert client.drain() == group.of(key)


def test_consumer_with_changing_pack(group: consuming.Bench) -> None:
    """A consumer raises ContradictoryAnswers if a pack is different at each reading."""
    client, key = group.client(), group.key()
    instead(group.brokers[1], Method.GET_MESSAGES, doubled_anywhere)
    client.connect(key)
    with pytest.raises(ContradictoryAnswers, match=rf"partition {key}, in the pack from offset 0 on"):
        client.poll(timeout_ms=10_000)


@pytest.mark.parametrize("change", [doubled, doubled_anywhere, one_left_out_anywhere])
def test_so_over_sockets(cluster: EmbeddedTubeMQ, settings: ClientSettings, change: Callable[[Any, int], None]) -> None:
    cluster.load("single", [NewMessage(0, b"%d" % number) for number in range(40)], broker_id=1)
    cluster.inspect(lambda broker: _lie(broker, change), broker_id=1)
    info = fetch_view(settings, ["single"], ("g-r0",)).brokers[1]
    whole = OffsetRange(PartitionKey(1, "single", 0), 0, 40 * 28)
    with (
        RangeReader(settings, ("g-r0",), store_sizes={(1, "single"): 1}) as reader,
        pytest.raises(ContradictoryAnswers, match=r"partition 1:single:0, offsets \[0, 1120\)"),
    ):
        list(reader.read(info, whole))


def test_repeated_omission_is_logged(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """An honest broker does so with messages that are damaged on its disk. No error: it can go on for ever."""
    sent = cluster.load("single", [NewMessage(0, b"%d" % number) for number in range(40)])
    left_out = sent[7].message_id

    def one_left_out(answer: Any, _: int) -> None:
        for number in [number for number, one in enumerate(answer.messages) if one.messageId == left_out]:
            del answer.messages[number]

    cluster.inspect(lambda broker: _lie(broker, one_left_out), broker_id=1)
    info = fetch_view(settings, ["single"], ("g-r0",)).brokers[1]
    whole = OffsetRange(PartitionKey(1, "single", 0), 0, 40 * 28)
    with RangeReader(settings, ("g-r0",), store_sizes={(1, "single"): 1}) as reader:
        (pack,) = reader.read(info, whole)
        assert len(pack) == 39
        assert "partition 1:single:0, offsets [0, 1120): the broker skipped 1 index entries" in caplog.text
        caplog.clear()
        list(reader.read(info, whole, frozenset({"red"})))
    assert "the broker skipped" not in caplog.text


def _lie(broker: Broker, change: Callable[[Any, int], None]) -> None:
    """Change all its answers to fetches."""
    serve, seen = broker.serve, 0

    def lying(method: Method, request: Any, now_ms: int, peer: Peer = NOBODY) -> Message | bytes:
        nonlocal seen
        answer = serve(method, request, now_ms, peer)
        if not isinstance(answer, bytes):
            return answer
        seen += 1
        message = broker_pb2.GetMessageResponseB2C.FromString(answer)
        change(message, seen)
        return message

    broker.serve = lying  # type: ignore[method-assign]
