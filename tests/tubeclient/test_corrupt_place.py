"""The place of a message that is no good is named, so that all others can be read around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tubeclient.test_read_range import Bench
from tests.tubeclient.test_read_range_limits import instead
from tubeclient.errors import CorruptMessage
from tubeclient.wire.methods import Method


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_but_the_place_can_be_read_as_the_error_says(tmp_path: Path, partitions: int) -> None:
    """In a store of one partition that is the message alone."""
    bench = Bench(tmp_path, partitions, 1)
    bench.append(300)
    whole = bench.range(0, 0, 300)
    victim = [one for one in bench.store.records(0, 300 * 28) if one.partition_id == 0][40]

    def damage(answer: Any, _: int) -> None:
        for one in answer.messages:
            one.checkSum ^= one.messageId == victim.message_id

    instead(bench.broker, Method.GET_MESSAGES, damage)
    with pytest.raises(CorruptMessage, match=f"the message with id {victim.message_id} does not match") as caught:
        bench.read(whole)
    start, end = (int(text) for text in str(caught.value).split("offsets [")[1].split(")")[0].split(", "))
    assert start <= victim.index_offset < end
    assert partitions > 1 or end - start == 28
    around = bench.range(0, 0, start // 28), bench.range(0, end // 28, 300)
    read = [body for piece in around for pack in bench.read(piece) for body in pack.columns.payloads]
    assert victim.payload not in read
    assert partitions > 1 or read == [body for body in bench.expected(whole) if body != victim.payload]
