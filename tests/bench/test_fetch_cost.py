"""What the tool counts: fetches, rows and copies."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from bench.embedded_loaded import Backlog, embedded_backlogs
from bench.fetch_cost import Worker, byte_copies
from embedded_tubemq import TopicConfig

TREE = Path(__file__).resolve().parents[2]


def test_a_worker_counts_what_it_read() -> None:
    topic = TopicConfig("counted", stores=2, partitions=1)
    with (
        embedded_backlogs([Backlog(topic, 400, 100)]) as settings,
        closing(Worker(TREE, settings, topic.name)) as worker,
    ):
        found = worker.read(3)
    assert found["rows"] == 3 * 400
    assert 3 * 2 <= found["fetches"] <= 3 * 4
    assert found["user"] + found["kernel"] > found["receiving"] >= 0


def test_a_byte_is_copied_once_by_each_stage_and_not_to_take_it_out() -> None:
    copies = byte_copies(TREE, 65_536)
    assert list(copies) == ["joined", "taken out", "parsed", "messages", "Arrow", "regrouped"]
    assert copies["taken out"] < 0.2
    assert copies["regrouped"] < 0.2
    assert all(0.5 < copies[name] < 1.4 for name in ("joined", "parsed", "messages", "Arrow"))
