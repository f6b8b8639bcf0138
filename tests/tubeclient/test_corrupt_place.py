"""The place of a message that is no good is its own, so that all others can be read around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tubeclient.test_read_range import BROKER, GROUPS, TOPIC, Bench
from tests.tubeclient.test_read_range_limits import instead
from tubeclient.errors import CorruptMessage
from tubeclient.flows.authority import Authority
from tubeclient.flows.corrupt_place import corrupt_message, counted_place, find_place
from tubeclient.flows.stay import Stay
from tubeclient.keys import OffsetRange, PartitionKey
from tubeclient.wire.methods import Method

KEY = PartitionKey(1, TOPIC, 0)


def found(bench: Bench, number: int, start: int, end: int, groups: tuple[str, ...] = GROUPS) -> OffsetRange:
    """The place that is found of message `number` of those in [start, end) messages of the store."""
    ids = [one.message_id for one in bench.store.records(start * 28, end * 28) if one.partition_id == 0]
    stay = Stay(BROKER, KEY, groups, lambda: "looker", Authority())
    counted = counted_place(KEY, start * 28, end * 28, len(ids), number)
    place: OffsetRange = bench.simulation.finish(find_place(stay, ids, number, counted, "looking"))
    return place


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 4),
    half_packs=st.booleans(),
    advancing_404=st.booleans(),
    data=st.data(),
)
def test_it_is_its_index_entry(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    partitions: int,
    half_packs: bool,
    advancing_404: bool,
    data: st.DataObject,
) -> None:
    bench = Bench(tmp_path_factory.mktemp("store"), partitions, seed)
    bench.broker.faults.half_packs, bench.broker.faults.advancing_404 = half_packs, advancing_404
    bench.append(200)
    start = data.draw(st.integers(0, 100))
    end = data.draw(st.integers(start + 60, 200))
    own = [at for at in range(start, end) if bench.store.records(at * 28, at * 28 + 28)[0].partition_id == 0]
    number = data.draw(st.integers(0, len(own) - 1))
    assert found(bench, number, start, end) == OffsetRange(KEY, own[number] * 28, own[number] * 28 + 28)


def test_where_the_broker_does_not_help_it_is_what_counting_tells(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 3, 1)
    bench.append(100)
    own = [at for at, one in enumerate(bench.store.records(0, 2_800)) if one.partition_id == 0]
    bench.broker.faults.stop_reading = True
    place = found(bench, 5, 0, 100)
    assert (place.start, place.end) == (5 * 28, (100 - (len(own) - 6)) * 28)
    assert place.start <= own[5] * 28 < place.end


def test_all_but_one_message_can_be_read_as_the_error_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 3, 1)
    bench.append(300)
    whole = bench.range(0, 0, 300)
    victim = [one for one in bench.store.records(0, 300 * 28) if one.partition_id == 0][40]

    def damage(answer: Any, _: int) -> None:
        for one in answer.messages:
            one.checkSum ^= one.messageId == victim.message_id

    instead(bench.broker, Method.GET_MESSAGES, damage)
    with pytest.raises(CorruptMessage) as caught:
        bench.read(whole)
    place = OffsetRange(KEY, victim.index_offset, victim.index_offset + 28)
    assert str(caught.value) == str(
        corrupt_message(place, f"the message with id {victim.message_id} does not match its checksum")
    )
    assert f"up to offset {place.start} " in str(caught.value)
    assert f"from offset {place.end} " in str(caught.value)
    around = bench.range(0, 0, place.start // 28), bench.range(0, place.end // 28, 300)
    read = [body for piece in around for pack in bench.read(piece) for body in pack.columns.payloads]
    assert read == [body for body in bench.expected(whole) if body != victim.payload]
