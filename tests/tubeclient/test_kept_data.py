"""Ranges whose messages have expired, though their index entries have not: an error, or counted, never silence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tubeclient import (
    BrokerInfo,
    ClientSettings,
    DataLoss,
    OffsetRange,
    PartitionKey,
    RangeReader,
    fetch_view,
    reader_groups_of,
)
from tubeclient.range_reader import WantedRange
from tubeclient.wire.payload import java_string_hash

GROUPS = reader_groups_of("etl")
ENTRY = 28
COUNT = 3_000
ALONE, SHARED, SIBLING = PartitionKey(1, "single", 0), PartitionKey(1, "clicks", 1), PartitionKey(1, "clicks", 0)


@pytest.fixture
def broker(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> BrokerInfo:
    """Messages that tell their index entry; in "clicks" those of two partitions take turns."""
    tag = java_string_hash("odd")
    for topic in ("clicks", "single"):
        partitions = 2 if topic == "clicks" else 1
        bodies = [NewMessage(n % partitions, b"%06d" % n + bytes(1_000), tag_hash=tag) for n in range(COUNT)]
        cluster.load(topic, bodies)
    return fetch_view(settings, ["clicks"], GROUPS).brokers[1]


def span(key: PartitionKey, start: int, end: int) -> OffsetRange:
    return OffsetRange(key, start * ENTRY, end * ENTRY)


def numbers(reader: RangeReader, broker: BrokerInfo, piece: OffsetRange) -> list[int]:
    return [int(message.body[:6]) for pack in reader.read(broker, piece) for message in pack]


def of(key: PartitionKey, start: int, end: int) -> list[int]:
    return [n for n in range(start, end) if key.topic == "single" or n % 2 == key.partition_id]


@pytest.mark.parametrize("key", [ALONE, SHARED])
@pytest.mark.parametrize("gone", [1, 2, 37, 1_234, 2_999, 3_000])
def test_expired_data_is_an_error_or_counted(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo, key: PartitionKey, gone: int
) -> None:
    cluster.expire_data(key.topic, gone * ENTRY)
    said = rf"partition {key} only from {gone * ENTRY} on: at most {gone} messages from 0 on.*fail_on_data_loss=False"
    with RangeReader(settings, GROUPS) as strict, pytest.raises(DataLoss, match=said) as caught:
        numbers(strict, broker, span(key, 0, COUNT))
    assert (caught.value.partition, caught.value.wanted, caught.value.found) == (str(key), 0, gone * ENTRY)
    with RangeReader(settings, GROUPS, fail_on_data_loss=False) as lenient:
        assert numbers(lenient, broker, span(key, 0, COUNT)) == of(key, gone, COUNT)
        assert [(loss.start, loss.end) for loss in lenient.losses] == [(0, gone * ENTRY)]


@pytest.mark.parametrize("key", [ALONE, SHARED])
@pytest.mark.parametrize("start", [1_234, 1_235, 1_400, 2_998])
def test_what_lies_behind_expired_data_is_whole(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo, key: PartitionKey, start: int
) -> None:
    cluster.expire_data(key.topic, 1_234 * ENTRY)
    with RangeReader(settings, GROUPS) as reader:
        assert numbers(reader, broker, span(key, start, COUNT)) == of(key, start, COUNT)
        assert reader.losses == []


@pytest.mark.parametrize("size", [1, 2])  # one is out of date
def test_siblings_filters_and_silence(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo, size: int
) -> None:
    """Siblings, filters, and silent partitions do not count as loss."""
    cluster.load("clicks", [NewMessage(10_001, b"x")] * 500)
    silent = PartitionKey(1, "clicks", 10_000)
    wanted = [
        WantedRange(broker, span(SIBLING, 0, COUNT)),
        WantedRange(broker, span(SHARED, 0, COUNT), frozenset({"odd"})),
        WantedRange(broker, span(ALONE, 5, COUNT), frozenset({"even"})),
        WantedRange(broker, span(silent, 0, 500)),
        WantedRange(broker, span(silent, 0, 500)),
    ]
    with RangeReader(settings, GROUPS, store_sizes={(1, "clicks"): size, (1, "single"): 1}) as reader:
        counts = dict.fromkeys(range(len(wanted)), 0)
        for number, pack in reader.read_all(wanted):
            counts[number] += len(pack) if pack is not None else 0
        assert reader.losses == []
    assert counts == {0: COUNT // 2, 1: COUNT // 2, 2: 0, 3: 0, 4: 0}


def test_expiry_before_pack_is_cut(cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo) -> None:
    """The caller is slow; meanwhile goes what is around the end of its range, in the middle of a pack."""
    with RangeReader(settings, GROUPS, fail_on_data_loss=False) as reader:
        packs = [(pack.start, pack.end) for pack in reader.read(broker, span(SHARED, 0, COUNT))]
        (_, handed_on), (_, end) = packs[0], packs[1]
        cut = (handed_on + end) // 2 // ENTRY
        gone = (cut * ENTRY + end) // 2 // ENTRY
        rows = []
        for pack in reader.read(broker, span(SHARED, 0, cut)):
            rows += [int(message.body[:6]) for message in pack]
            cluster.expire_data("clicks", gone * ENTRY)
        assert rows == of(SHARED, 0, handed_on // ENTRY)
        assert reader.losses != []


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("gone", [700, 2_900])
@pytest.mark.parametrize("expire", [EmbeddedTubeMQ.expire, EmbeddedTubeMQ.expire_data])
@pytest.mark.parametrize("key", [ALONE, SHARED])
def test_what_expires_while_it_is_read(
    cluster: EmbeddedTubeMQ,
    settings: ClientSettings,
    broker: BrokerInfo,
    key: PartitionKey,
    expire: Callable[[EmbeddedTubeMQ, str, int], None],
    gone: int,
    fail: bool,
) -> None:
    wanted = of(key, 0, COUNT)
    with RangeReader(settings, GROUPS, fail_on_data_loss=fail) as reader:
        packs = reader.read(broker, span(key, 0, COUNT))
        read = [int(message.body[:6]) for message in next(packs)]
        expire(cluster, key.topic, gone * ENTRY)
        failure: DataLoss | None = None
        try:
            read += [int(message.body[:6]) for pack in packs for message in pack]
        except DataLoss as error:
            failure = error
        if failure is not None:
            assert fail
            assert str(key) in str(failure)
            return
        missing = sorted(set(wanted) - set(read))
        assert not fail or not missing
        assert all(any(loss.start <= n * ENTRY < loss.end for loss in reader.losses) for n in missing)
        assert all(loss.end <= gone * ENTRY for loss in reader.losses)
        assert missing or gone < 2_900
