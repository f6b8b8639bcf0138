"""A member whose application stands still gives its partitions to the others, over real sockets."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.reading import Reader, Writer, counted
from tests.waiting import wait_for
from tubeclient import ClientSettings, ConfigurationError, PullConsumer, StalePack


def test_a_fixed_group_relieves_nobody(settings: ClientSettings) -> None:
    with pytest.raises(ConfigurationError, match='relieve_slow needs membership="dynamic"'):
        PullConsumer(settings, "etl", ["clicks"], relieve_slow=True)


def test_stuck_member(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """Other members read what a stuck member does not, and they read nothing twice."""
    options: dict[str, Any] = {
        "membership": "dynamic",
        "relieve_slow": True,
        "start_from": "earliest",
        "balance_interval_ms": 300,
        "confirm_timeout_ms": 1_500,
    }
    with ExitStack() as stack:
        stuck, *others = [stack.enter_context(PullConsumer(settings, "etl", ["clicks"], **options)) for _ in range(3)]
        wait_for(lambda: sum(len(one.registered()) for one in (stuck, *others)) == 8, "all partitions to have a reader")
        for broker_id in (1, 2):
            for partition in (0, 1, 10_000, 10_001):
                cluster.load("clicks", [NewMessage(partition, b"%d" % partition)], broker_id=broker_id)
        delivery = stuck.get(timeout_ms=30_000)
        assert delivery is not None
        with Writer(settings, "clicks") as writer, ExitStack() as reading:
            readers = [reading.enter_context(Reader(one)) for one in others]
            wait_for(lambda: not stuck.registered(), "its partitions to be given up")
            wait_for(lambda: sum(len(one.registered()) for one in others) == 8, "the others to have them")
            writer.stop()
            wait_for(lambda: counted(readers).total() >= len(writer.sent) + 8, "all messages to be read")
            assert counted(readers) >= Counter(writer.sent)
            assert counted(readers).total() == len(writer.sent) + 8
        with pytest.raises(StalePack):
            stuck.confirm(delivery)
        assert len(stuck.members) == 3
