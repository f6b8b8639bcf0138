"""A consumer that keeps bad messages: one of them delays nothing behind it; on simulated brokers and over sockets."""

from __future__ import annotations

import pytest

from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.consuming import Bench
from tests.tubeclient.test_kept_messages import other_bytes
from tests.tubeclient.test_read_range_limits import instead
from tubeclient import CorruptMessage
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_attributes, encode_payload, java_string_hash

UNPARSABLE = b"\0\0\0\x63k=v"


@pytest.mark.parametrize("on_the_way", [0, 1])
def test_damaged_messages_are_delivered_with_all_others(
    bench: Bench, on_the_way: int, caplog: pytest.LogCaptureFixture
) -> None:
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


def test_a_message_with_other_bytes_each_time_is_an_error_and_not_silence(bench: Bench) -> None:
    client, key = bench.client(bad_messages="keep"), bench.key()
    instead(bench.brokers[1], Method.GET_MESSAGES, other_bytes)
    client.connect(key)
    for _ in range(2):
        with pytest.raises(CorruptMessage, match=f"partition {key}, .* other bytes in each of 5 readings") as failed:
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
