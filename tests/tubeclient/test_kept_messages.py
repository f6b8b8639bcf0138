"""Damaged messages that are kept: all others around them, the same ones for every reader, and none that is well."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tubeclient.stored import records_of
from tests.tubeclient.test_read_range import Bench, assert_no_gaps, instead
from tubeclient.errors import CorruptMessage
from tubeclient.flows.message_pack import MessagePack
from tubeclient.flows.read_range import Pack
from tubeclient.keys import OffsetRange
from tubeclient.wire.messages import Columns
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_attributes, encode_payload


def own_offsets(bench: Bench, whole: OffsetRange) -> list[int]:
    """The index offsets of the first partition's messages."""
    return [one.index_offset for one in records_of(bench.store, whole.start, whole.end) if one.partition_id == 0]


def rows(emitted: list[Any]) -> list[tuple[int, bytes, str | None]]:
    return [(one.message_id, one.body, one.bad_reason) for pack in emitted for one in pack]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 4),
    half_packs=st.booleans(),
    advancing_404=st.booleans(),
    data=st.data(),
)
def test_same_bad_messages_in_each_reading(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    partitions: int,
    half_packs: bool,
    advancing_404: bool,
    data: st.DataObject,
) -> None:
    """As a whole or in slices, and whatever was damaged on the way besides."""
    bench = Bench(tmp_path_factory.mktemp("store"), partitions, seed)
    bench.append(200)
    whole = bench.range(0, 0, 200)
    own = own_offsets(bench, whole)
    well = records_of(bench.store, whole.start, whole.end)
    victims = data.draw(st.lists(st.sampled_from(own), unique=True, max_size=5))
    for victim in victims:
        bench.store.damage(victim, byte=data.draw(st.integers(0, 7)))
    bench.broker.faults.half_packs, bench.broker.faults.advancing_404 = half_packs, advancing_404
    read = rows(emitted := bench.read(whole, bad_messages="keep"))
    assert_no_gaps(emitted, whole)
    ids = {one.index_offset: one.message_id for one in well}
    assert [number for number, _, _ in read] == [ids[offset] for offset in own]
    assert {number for number, _, reason in read if reason is not None} == {ids[offset] for offset in victims}
    assert all("checksum" in reason for _, _, reason in read if reason is not None)
    bodies = {one.message_id: one.payload for one in well}
    assert all((body == bodies[number]) == (reason is None) for number, body, reason in read)
    cuts = sorted({0, 200, *data.draw(st.lists(st.integers(1, 199), max_size=3))})
    bench.broker.faults.corrupt_checksums = data.draw(st.integers(0, 1))
    again = [bench.read(bench.range(0, *ends), bad_messages="keep") for ends in itertools.pairwise(cuts)]
    assert rows(list(itertools.chain.from_iterable(again))) == read


def test_damage_in_transit(tmp_path: Path) -> None:
    """A message that is damaged in transit is read again."""
    bench = Bench(tmp_path, 2, 1)
    bench.append(100)
    whole = bench.range(0, 0, 100)
    bench.broker.faults.corrupt_checksums = 1
    read = rows(bench.read(whole, bad_messages="keep"))
    assert [(body, reason) for _, body, reason in read] == [(body, None) for body in bench.expected(whole)]
    assert bench.broker.faults.corrupt_checksums == 0


def other_bytes(answer: Any, seen: int) -> None:
    for one in answer.messages[3:4]:
        one.payLoadData += b"%d" % seen


def test_message_with_changing_bytes(tmp_path: Path) -> None:
    """A row would be another one whenever it is read."""
    bench = Bench(tmp_path, 1, 1)
    bench.append(20)
    instead(bench.broker, Method.GET_MESSAGES, other_bytes)
    told = r"1:clicks:0, offsets \[84, 112\): the message with id \d+ had different bytes in each of 5 reads: "
    with pytest.raises(CorruptMessage, match=told):
        bench.read(bench.range(0, 0, 20), bad_messages="keep")


def test_what_is_known_of_a_bad_message(tmp_path: Path) -> None:
    payload, flag = encode_payload(b"body", encode_attributes({"k": "v"}, "tag", "202611211030"))
    columns = Columns([5, 6, 7], [payload, b"\0\0\0\x63k=v", payload], [0, flag, flag])
    pack: MessagePack = Pack(Bench(tmp_path, 1, 1).range(0, 0, 1).partition, 0, 84, columns, {0: "damaged"})
    first, second, third = pack
    assert pack.bad == {0: "damaged", 1: "attributes of 99 bytes in a payload of 7"}
    assert pack.bodies == [payload, b"\0\0\0\x63k=v", b"body"]
    for one, reason in ((first, "damaged"), (second, pack.bad[1])):
        assert (one.bad_reason, one.tag, one.time, one.attributes) == (reason, "", "", {})
    assert [first.body, second.body, third.body] == pack.bodies
    assert (third.bad_reason, third.tag, third.attributes) == (None, "tag", {"k": "v"})
