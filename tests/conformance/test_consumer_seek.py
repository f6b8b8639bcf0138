"""Connecting a partition at an offset, again and again, inside and outside of what the broker holds."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of, take
from tubeclient import BootstrapOffset, DataLoss, StalePack
from tubeclient.keys import INDEX_ENTRY_BYTES

KEY = partition_of("seeks")


@pytest.mark.parametrize("move", ["forwards", "backwards", "earliest", "latest"])
def test_connecting_again_moves_the_partition(tube: Cluster, consumer_of: MakeConsumer, move: str) -> None:
    offsets = tube.put(KEY, [b"%s %d" % (move.encode(), number) for number in range(5)])
    end = offsets[-1] + INDEX_ENTRY_BYTES
    wanted = {
        "forwards": (offsets[3], offsets[3]),
        "backwards": (offsets[0], offsets[0]),
        "earliest": (BootstrapOffset.EARLIEST, 0),
        "latest": (BootstrapOffset.LATEST, end),
    }
    to, start = wanted[move]
    consumer = consumer_of(f"seek_{move}", ["seeks"])
    assert consumer.connect(KEY, offsets[1]) == offsets[1]
    out = take(consumer)
    assert consumer.connect(KEY, to) == start
    with pytest.raises(StalePack):
        consumer.confirm(out)
    if start == end:
        [late] = tube.put(KEY, [b"late"])
        assert (late, take(consumer).bodies) == (end, [b"late"])
    else:
        again = take(consumer)
        assert again.start == start
        assert consumer.confirm(again) == end
    assert consumer.registered() == [KEY]


@pytest.mark.parametrize(("start_from", "at_end"), [("earliest", False), ("latest", True), ("always_latest", True)])
def test_where_a_new_group_begins(tube: Cluster, consumer_of: MakeConsumer, start_from: str, at_end: bool) -> None:
    offsets = tube.put(KEY, [b"older", b"newer"])
    end = offsets[-1] + INDEX_ENTRY_BYTES
    consumer = consumer_of(f"seek_new_{start_from}", ["seeks"], start_from=start_from)
    assert consumer.connect(KEY) == (end if at_end else 0)


def test_an_offset_behind_the_end_is_data_loss(
    tube: Cluster, consumer_of: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    [offset] = tube.put(KEY, [b"the last one"])
    end = offset + INDEX_ENTRY_BYTES
    beyond = end + 100 * INDEX_ENTRY_BYTES
    consumer = consumer_of("seek_beyond", ["seeks"])
    with pytest.raises(DataLoss, match=f"1:seeks:0.* {beyond} .*fail_on_data_loss") as caught:
        consumer.connect(KEY, beyond)
    assert (caught.value.partition, caught.value.wanted, caught.value.found) == (str(KEY), beyond, end)
    assert consumer.registered() == []
    # The partition was not kept: another client has it at once.
    other = consumer_of("seek_beyond", ["seeks"], fail_on_data_loss=False)
    assert other.connect(KEY, beyond) == end
