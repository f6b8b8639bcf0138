"""What the storm's producers note is what the brokers hold, in messages and in packs."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.exactly_once.contents import Content, in_packs, one_each
from tests.exactly_once.judge import Row
from tests.exactly_once.looking import held_by_brokers
from tests.exactly_once.writers import Writers
from tests.waiting import wait_for
from tubeclient import ClientSettings


@pytest.mark.parametrize("content", [one_each, in_packs])
def test_every_number_is_held_where_its_producer_was_told(content: Content, tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("numbers", stores=2, partitions=2)], brokers=2) as tube:
        settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
        writers = Writers(settings, "numbers", content)
        with writers.writing(2_000):
            wait_for(lambda: len(writers.acknowledged) >= 400, "numbers to be written")
        held = held_by_brokers(settings, "numbers")
        assert sorted(held) == sorted(Row(place, number) for number, place in writers.acknowledged.items())
        assert len({row.place for row in held}) == (len(held) if content is one_each else len(held) // 20)
        assert not writers.unknown
