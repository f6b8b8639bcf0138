"""What a task gives of its ranges, without Spark; on the embedded servers."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from spark_source.plan.read_task import OffsetRule, ReadTask
from spark_source.read.task_read import read_task
from tests.moving import move_broker
from tests.waiting import wait_for
from tubeclient import (
    BrokerInfo,
    ClientSettings,
    PartitionKey,
    StoreKey,
    TubeError,
    fetch_view,
    reader_groups_of,
)
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.keys import OffsetRange
from tubeclient.net.pool import shared_pool


def rows(
    tube: EmbeddedTubeMQ,
    topic: str,
    end: int,
    *,
    begin: int = 0,
    rule: OffsetRule = OffsetRule.ALWAYS,
    place: str | None = None,
    **more: str,
) -> list[dict[str, Any]]:
    """Those of the first partition, alone in its store when the batch was planned, from message `begin` to `end`."""
    settings = ClientSettings((tube.master_address,))
    broker: BrokerInfo = fetch_view(settings, [topic], reader_groups_of("task_read")).brokers[1]
    given = {"masterServers": tube.master_address, "consumerGroup": "task_read", "subscribe": topic, **more}
    key = PartitionKey(1, topic, 0)
    task = ReadTask(0, [OffsetRange(key, begin * 28, end * 28)], {StoreKey(1, topic, 0): rule}, (broker,))
    return [row for batch in read_task(parse_options(given), task, place) for row in batch.to_pylist()]


def test_broker_that_moved_after_planning(tmp_path: Path) -> None:
    """A task reads a broker at its new address if the broker moved after planning."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("moved", 1, 1)]) as tube:
        tube.load("moved", [NewMessage(0, b"%03d" % number) for number in range(50)])
        settings = ClientSettings((tube.master_address,))
        broker = fetch_view(settings, ["moved"], reader_groups_of("task_read")).brokers[1]
        task = ReadTask(0, [OffsetRange(PartitionKey(1, "moved", 0), 0, 50 * 28)], {}, (broker,))
        given = {"masterServers": tube.master_address, "consumerGroup": "task_read", "subscribe": "moved"}
        options = parse_options({**given, "retryLimit": "5s"})

        def read() -> list[bytes]:
            return [row["value"] for batch in read_task(options, task) for row in batch.to_pylist()]

        expected = [b"%03d" % number for number in range(50)]
        assert read() == expected
        pool = shared_pool(client_settings(options))
        assert pool.live(broker.address) is not None
        move_broker(tube, 1)
        # A task that begins before this waits at the old address, fails, and is run again.
        wait_for(lambda: pool.live(broker.address) is None, "the old connection to be known as closed")
        assert read() == expected
        # Without a master, nobody can say where it is: the task fails as before.
        move_broker(tube, 1)
        tube.master_faults.standby = True
        with pytest.raises(TubeError):
            read()


def test_worker_freezes_its_imports(tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark worker freezes its imports so that garbage collection skips them after each task."""
    tube.create_topic(TopicConfig("frozen", 1, 1))
    gc.unfreeze()  # the tests' own imports
    rows(tube, "frozen", 0)
    assert gc.get_freeze_count() == 0
    monkeypatch.setattr("spark_source.boundary.main_module", lambda: "pyspark.daemon")
    rows(tube, "frozen", 0)
    assert gc.get_freeze_count() > 50_000


@pytest.mark.parametrize("strict", ["true", "false"])
def test_topic_that_grew_after_planning(tube: EmbeddedTubeMQ, strict: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its store's index has entries of the new partition, too."""
    topic = f"grown_{strict}"
    tube.create_topic(TopicConfig(topic, 1, 1))
    tube.load(topic, [NewMessage(0, b"%03d" % number) for number in range(50)])
    tube.grow_topic(topic, partitions=2)
    tube.load(topic, [NewMessage(number % 2, b"%03d" % number) for number in range(50, 100)])
    found = rows(tube, topic, 100, failOnDataLoss=strict)
    assert [row["value"] for row in found] == [b"%03d" % number for number in (*range(50), *range(50, 100, 2))]
    assert "continued without" not in caplog.text


@pytest.mark.parametrize("payload", ["raw", "auto"])
def test_places_order_a_partition(tube: EmbeddedTubeMQ, payload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And they are the same in each attempt, however its messages came in packs, and whatever is bad beside them."""
    topic = f"placed_{payload}"
    tube.create_topic(TopicConfig(topic, 1, 2))
    several = encode_pack([RecordGroup({"groupId": "g", "streamId": "s", "dt": "0"}, [b"a", b"b", b"c"])], made_ms=0)
    bodies = [several[:20] if n % 7 == 3 else several if n % 3 else b"alone" for n in range(40)]
    tube.load(topic, [NewMessage(n % 2, body) for n, body in enumerate(bodies)])
    how = {"payload": payload, "badMessages": "keep", "place": "place"}

    def placed(begin: int, end: int) -> list[tuple[int, int, int | None, bytes]]:
        found = rows(tube, topic, end, begin=begin, rule=OffsetRule.UNKNOWN, **how)
        good = [row for row in found if row["badReason"] is None]
        return [(row["place"], row["messageId"], row.get("recordIndex"), row["value"]) for row in good]

    last, first, whole = placed(20, 40), placed(0, 20), placed(0, 40)
    both = sorted([*last, *first])
    assert len({place for place, *_ in both}) == len(both) == len(whole)
    assert [one[1:] for one in both] == [one[1:] for one in whole]
    assert whole == sorted(whole)
    monkeypatch.setattr("spark_source.read.task_read.MIN_BATCH_ROWS", 1)
    assert placed(20, 40) == last
