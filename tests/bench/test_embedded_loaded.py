"""embedded_tubemq with backlogs that it loaded itself."""

from __future__ import annotations

import pytest

from bench.embedded_loaded import Backlog, embedded_backlogs
from bench.tubemq_ceiling import TubeCeiling
from embedded_tubemq import TopicConfig


def test_it_holds_the_backlogs_and_two_processes_read_them_whole() -> None:
    backlogs = [
        Backlog(TopicConfig("one_store", stores=1, partitions=8), 10_000, 100),
        Backlog(TopicConfig("eight_stores", stores=8, partitions=1), 100, 20_000),
    ]
    with embedded_backlogs(backlogs) as settings, TubeCeiling(settings) as ceiling:
        for topic, messages, body_bytes in backlogs:
            assert ceiling.count(topic.name) == messages
            assert ceiling.drain(topic.name, messages, body_bytes) > 0
            with pytest.raises(RuntimeError, match="bytes for 100000 messages"):
                ceiling.drain(topic.name, 100_000, body_bytes)
