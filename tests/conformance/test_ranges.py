"""Exact ranges, and where they end, beside running producers and other readers."""

from __future__ import annotations

import itertools
import random
import threading
from contextlib import closing

import pytest

from tests.conformance.clients import GROUPS, ends, read
from tests.conformance.cluster import Cluster
from tests.front_door import FrontDoor
from tests.waiting import wait_for
from tubeclient import (
    ClientSettings,
    OffsetLookup,
    OffsetRange,
    PartitionKey,
    Producer,
    RangeReader,
    fetch_view,
)
from tubeclient.net.connection import split_address
from tubeclient.wire.methods import Method

pytestmark = pytest.mark.apache


@pytest.mark.merge("apache-")
@pytest.mark.parametrize("topic", ["ranges_shared", "ranges_cut"])
def test_random_cuts_beside_a_producer(
    tube: Cluster, settings: ClientSettings, producer: Producer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No answer of an honest broker counts as a contradiction, or as one that leaves a message out."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    producer.publish([topic])
    sent: list[tuple[PartitionKey, int, bytes]] = []
    stop = threading.Event()

    def produce() -> None:
        for number in itertools.count():
            futures = [producer.submit(topic, b"%08d" % (number * 100 + n) + bytes(900)) for n in range(100)]
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
        view = fetch_view(settings, [topic], GROUPS)
        targets = ends(settings, view)
        got: list[tuple[PartitionKey, bytes]] = []
        for key in view.partitions():
            last = targets[key.store] // 28
            cuts = sorted({0, last, *(rng.randrange(last) for _ in range(10))})
            for start, end in itertools.pairwise(cuts):
                pieces = read(tube, view, OffsetRange(key, start * 28, end * 28))
                got += [(key, body[:8]) for _, body, _ in pieces]
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    expected = sorted((key, offset, body) for key, offset, body in sent if offset < targets[key.store])
    assert got == [(key, body) for key, _, body in expected]
    assert "the broker skipped" not in caplog.text


@pytest.mark.parametrize("groups", [GROUPS, GROUPS[:1]])
def test_late_fetch_skips_nothing(tube: Cluster, settings: ClientSettings, groups: tuple[str, ...]) -> None:
    """The broker takes it for one of its reader's own, and moves that reader on."""
    key = PartitionKey(1, "ranges_late", 0)
    offsets = tube.put(key, (b"%06d" % number + bytes(20_000) for number in range(300)))
    piece = OffsetRange(key, offsets[0], offsets[-1] + 28)
    got: list[int] = []
    packs_after = 0
    with (
        FrontDoor(tube.brokers[1].address) as door,
        RangeReader(settings, groups, visit_token=tube.visit_token()) as reader,
    ):
        door.break_at(Method.GET_MESSAGES, 5)
        host, port = split_address(door.address)
        for pack in reader.read(tube.brokers[1]._replace(host=host, port=port), piece):
            if door.holds:
                packs_after += 1
                if packs_after == 4:  # those that had come before that are through
                    door.deliver()
            got += [int(body[:6]) for body in pack.bodies]
    assert packs_after == 4
    assert got == list(range(300))


def test_reading_leaves_the_groups_own_position_alone(
    tube: Cluster, settings: ClientSettings, producer: Producer
) -> None:
    producer.publish(["ranges_single"])
    for number in range(40):
        producer.send("ranges_single", b"%d" % number)
    view = fetch_view(settings, ["ranges_single"], GROUPS)
    after = ends(settings, view)
    for key in view.partitions():
        read(tube, view, OffsetRange(key, 0, after[key.store]))
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        assert lookup.group_positions(view, "tubeclient_tests") == {}
        assert lookup.group_positions(view, GROUPS[0]) != {}
