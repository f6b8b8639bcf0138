"""What a consumer makes of answers that are no packs, or bad ones, and how far it fetches ahead; simulated brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.message import Message

from embedded_tubemq.common.catalogue import NOBODY, Peer
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.consuming import LOOKERS, Bench, Client
from tests.tubeclient.test_kept_messages import other_bytes
from tests.tubeclient.test_read_range import instead
from tubeclient.errors import (
    CorruptMessage,
    DataLoss,
)
from tubeclient.flows.holding import Phase
from tubeclient.flows.registrar import Lost
from tubeclient.keys import OffsetRange
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_attributes, encode_payload, java_string_hash
from tubeclient.wire.proto import broker_pb2


@pytest.mark.parametrize("code", [301, 403, 452, 500, 503, 510, 599])
def test_a_passing_refusal_is_waited_out(bench: Bench, client: Client, code: int) -> None:
    bench.brokers[1].faults.force(Method.GET_MESSAGES, code, times=2, wait_ms=300)
    client.confirm(client.get(timeout_ms=10_000))
    client.connect(bench.key(), 0)
    assert client.drain() == bench.of(bench.key())
    assert client.events_of(Lost) == []


def test_repeated_empty_answers(bench: Bench, client: Client) -> None:
    """The client waits between fetches if a broker answers empty from the same position."""
    handle = bench.brokers[1].handle

    def empty(method: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message:
        if method is Method.GET_MESSAGES:
            return broker_pb2.GetMessageResponseB2C(success=True, errCode=200, currOffset=0, maxOffset=28)
        return handle(method, request, now_ms, peer)

    bench.brokers[1].handle = empty  # type: ignore[method-assign]
    before = bench.simulation.now_ms
    assert client.poll(timeout_ms=10_000) is None
    assert bench.simulation.now_ms - before < 11_000
    assert bench.simulation.calls.count(Method.GET_MESSAGES) <= 10_000 / 300 + 2
    bench.brokers[1].handle = handle  # type: ignore[method-assign]
    assert client.drain() == bench.of(bench.key())


@pytest.mark.parametrize("busy", [False, True], ids=["looked at", "no reader group is free for a look"])
def test_messages_that_expired_are_an_error_once(bench: Bench, busy: bool) -> None:
    client, key = bench.connected(reader_groups=LOOKERS), bench.key()
    client.confirm(client.get())
    position = bench.committed(key)
    assert position is not None
    gone = position + 5 * 28
    drop_prefetched(client)
    bench.store(key).expire(gone)
    if busy:
        bench.brokers[1].faults.force(Method.PARTITION_REGISTER, 410, times=1_000)
    with pytest.raises(DataLoss, match=r"up to 5 messages of 1:clicks:0\[.*expired") as caught:
        client.get()
    assert (caught.value.partition, caught.value.wanted, caught.value.found) == (str(key), position, gone)
    assert client.drain() == bench.of(key)[gone // 28 :]


def test_messages_that_expired_may_be_passed_over(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    client, key = bench.client(fail_on_data_loss=False, reader_groups=LOOKERS), bench.key()
    client.connect(key)
    client.confirm(client.get())
    position = bench.committed(key)
    assert position is not None
    drop_prefetched(client)
    bench.store(key).expire(position + 5 * 28)
    assert client.drain() == bench.of(key)[position // 28 + 5 :]
    assert f"expired before they were read: {OffsetRange(key, position, position + 5 * 28)}" in caplog.text


def test_group_moved_on_purpose(bench: Bench) -> None:
    """A group that somebody moves on purpose reports no loss."""
    client, key = bench.connected(reader_groups=LOOKERS), bench.key()
    client.confirm(client.get())
    drop_prefetched(client)
    for offset in (25 * 28, 2 * 28):  # forwards and backwards
        bench.brokers[1].offsets.reset(bench.cursor(key), offset, bench.store(key).bounds)
        assert client.drain() == bench.of(key)[offset // 28 :]
    assert client.events_of(Lost) == []


def test_damaged_message(bench: Bench, client: Client) -> None:
    """A damaged message raises CorruptMessage with its place and is not delivered."""
    key = bench.key()
    client.confirm(client.get())
    position = bench.committed(key)
    assert position is not None
    drop_prefetched(client)
    bench.brokers[1].faults.corrupt_checksums = 2
    for _ in range(2):
        with pytest.raises(CorruptMessage, match=f"partition {key}, in the pack from offset {position} on"):
            client.get()
    assert client.drain() == bench.of(key)[position // 28 :]  # it was damaged on the way only


def drop_prefetched(client: Client) -> None:
    """Forget the fetch that is on its way, as if there had been none: the next one sees what comes now."""
    for holding in list(client.registrar.holdings.in_phase[Phase.FETCHING]):
        holding.rest(expected=holding.confirmed)


PARTITIONS = 6


def started(folder: Path, prefetch: int) -> Client:
    bench = Bench(folder, partitions=1, stores=PARTITIONS)
    bench.send(60)
    client = bench.client(prefetch=prefetch)
    for number in range(PARTITIONS):
        client.connect(bench.key(number))
    return client


def under_way(client: Client) -> int:
    """Packs asked for, of which nobody has had any."""
    return len(client.registrar.holdings.in_phase[Phase.FETCHING])


@pytest.mark.parametrize("prefetch", [0, 1, 2, 3])
def test_prefetch(tmp_path: Path, prefetch: int) -> None:
    """After get and confirm, as many packs are in flight as prefetch says."""
    client = started(tmp_path, prefetch)
    client.get()
    assert under_way(client) == prefetch
    client.confirm(client.get())
    assert under_way(client) == prefetch


# Bad messages that are kept

UNPARSABLE = b"\0\0\0\x63k=v"


@pytest.mark.parametrize("on_the_way", [0, 1])
def test_damaged_messages_are_delivered(bench: Bench, on_the_way: int, caplog: pytest.LogCaptureFixture) -> None:
    """Damaged messages are delivered in order with a reason if bad_messages allows it."""
    client, key = bench.client(bad_messages="keep"), bench.key()
    sent = bench.of(key)
    for number in (0, 1, 30, len(sent) - 1):
        bench.store(key).damage(number * 28, byte=0)
    bench.brokers[1].faults.corrupt_checksums = on_the_way
    client.connect(key)
    found: list[tuple[bytes, str | None]] = []
    bad_packs = 0
    while (delivery := client.poll()) is not None:
        found += [(one.body, one.bad_reason) for one in delivery]
        assert delivery.bodies == [one.body for one in delivery]
        bad_packs += bool(delivery.bad)
        client.confirm(delivery)
    assert [n for n, (_, reason) in enumerate(found) if reason is not None] == [0, 1, 30, len(sent) - 1]
    for (body, reason), original in zip(found, sent, strict=True):
        assert body == (original if reason is None else bytes([original[0] ^ 0xFF]) + original[1:])
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == bad_packs
    assert f"partition {key}, in the pack from offset 0 on: 3 bad messages are kept" in told[0]
    assert "checksum" in told[0]
    assert bench.committed(key) == bench.store(key).max_offset


def test_message_with_changing_bytes(bench: Bench) -> None:
    """A message raises CorruptMessage if it has different bytes at each reading."""
    client, key = bench.client(bad_messages="keep"), bench.key()
    instead(bench.brokers[1], Method.GET_MESSAGES, other_bytes)
    client.connect(key)
    for _ in range(2):
        with pytest.raises(CorruptMessage, match=f"partition {key}, .* different bytes in each of 5 reads") as failed:
            client.get(timeout_ms=60_000)
        assert "bad_messages" not in str(failed.value)


def test_bad_messages_come_whatever_tags_are_picked(bench: Bench) -> None:
    key = bench.key()
    bench.brokers[1].faults.half_packs = False
    payload, flag = encode_payload(b"body", encode_attributes({}, "a"))
    start = bench.store(key).max_offset
    new = [NewMessage(0, one, flag, java_string_hash("a")) for one in (payload, payload, UNPARSABLE)]
    bench.store(key).append_all(new, 0)
    bench.store(key).damage(start)
    client = bench.client(bad_messages="keep", filters={"clicks": frozenset({"a"})})
    client.connect(key)
    delivery = client.get(timeout_ms=10_000)
    assert [one.bad_reason is None for one in delivery] == [False, True, False]
    assert delivery.bodies[1:] == [b"body", UNPARSABLE]
