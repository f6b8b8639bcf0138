"""Data that expires between two packs of a consumer, while its index stays: it is told once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tubeclient.consuming import Bench, Client
from tests.tubeclient.interrupting import interrupted, interrupted_at_check
from tubeclient.errors import DataLoss, StalePack
from tubeclient.flows.effects import Flow
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.read_plan import BootstrapOffset
from tubeclient.wire.methods import Method

COUNT = 200
GONE = 150
HOUR_MS = 3_600_000.0


@pytest.fixture(params=[1, 2], ids=["alone", "shared"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A store of one partition, or of two."""
    bench = Bench(tmp_path, partitions=request.param)
    bench.brokers[1].faults.half_packs = True
    bench.send(COUNT)
    return bench


class Reader:
    """Reads a partition, and keeps what it was told of losses."""

    def __init__(self, bench: Bench, offset: int = BootstrapOffset.STORED, **options: Any) -> None:
        self.bench = bench
        plan = {"confirm_timeout_ms": 10 * HOUR_MS, "reader_groups": ("etl-r0", "etl-r1"), "prefetch": 0, **options}
        self.client: Client = bench.client(**plan)
        self.client.connect(bench.key(), offset)
        self.read: list[bytes] = []
        self.told: list[tuple[int | None, int | None]] = []

    def get(self) -> Delivery | None:
        while True:
            try:
                delivery = self.client.poll()
            except DataLoss as error:
                self.told.append((error.wanted, error.found))
                continue
            if delivery is not None:
                self.read += delivery.bodies
            return delivery

    def get_all(self) -> None:
        while (delivery := self.get()) is not None:
            try:
                self.client.confirm(delivery)
            except StalePack:
                del self.read[len(self.read) - len(delivery) :]

    @property
    def of_partition(self) -> list[int]:
        """The index entries of its messages."""
        return [number for number, (key, _) in enumerate(self.bench.sent) if key == self.bench.key()]

    def bodies(self, *, but: range) -> list[bytes]:
        return [self.bench.sent[number][1] for number in self.of_partition if number not in but]

    def expire(self, up_to: int = GONE) -> None:
        self.bench.store(self.bench.key()).expire_data(up_to * 28)


def position(reader: Reader) -> int:
    found = reader.bench.committed(reader.bench.key())
    assert found is not None
    return found // 28


def test_while_the_application_had_a_pack(bench: Bench) -> None:
    reader = Reader(bench)
    first = reader.get()
    assert first is not None
    bench.simulation.run(HOUR_MS)
    reader.expire()
    reader.client.confirm(first)
    begun = position(reader)
    reader.get_all()
    assert reader.told == [(begun * 28, GONE * 28)]
    assert reader.read == reader.bodies(but=range(begun, GONE))


def test_while_the_answer_waited_to_be_taken(bench: Bench) -> None:
    reader = Reader(bench, prefetch=2)
    first = reader.get()
    assert first is not None
    reader.client.confirm(first)  # the next fetch is sent with it
    bench.simulation.run(HOUR_MS)
    reader.expire(190)
    second = reader.get()
    assert second is not None
    begun = reader.client.confirm(second) // 28
    reader.get_all()
    assert reader.told == [(begun * 28, 190 * 28)]
    assert reader.read == reader.bodies(but=range(begun, 190))


def test_what_expires_while_its_answer_waits_is_read(bench: Bench) -> None:
    reader = Reader(bench, prefetch=2)
    first = reader.get()
    assert first is not None
    reader.client.confirm(first)
    bench.simulation.run(HOUR_MS)
    second = reader.get()
    assert second is not None
    reader.expire(second.start // 28 + 20)
    reader.client.confirm(second)
    reader.get_all()
    assert reader.told == []
    assert reader.read == reader.bodies(but=range(0))


def test_while_the_time_of_day_was_set_back(bench: Bench) -> None:
    reader = Reader(bench)
    first = reader.get()
    assert first is not None
    reader.client.confirm(first)
    begun = position(reader)
    bench.simulation.run(HOUR_MS)
    holding = reader.client.registrations.holdings.by_key[bench.key()]
    holding.updated_ms += 2 * HOUR_MS  # by two hours: its last answer seems to come yet
    reader.expire()
    reader.get_all()
    assert reader.told == [(begun * 28, GONE * 28)]


def test_right_ahead_of_a_reader_that_never_rests(tmp_path: Path) -> None:
    """Retention overtakes it. Where each entry should give a message, those that lack are noticed."""
    bench = Bench(tmp_path, partitions=1)
    bench.brokers[1].faults.half_packs = True
    bench.send(COUNT)
    reader = Reader(bench)
    first = reader.get()
    assert first is not None
    reader.client.confirm(first)
    begun = position(reader)
    reader.expire(begun + 10)  # within the next pack
    second = reader.get()
    assert second is not None
    reader.client.confirm(second)
    further = position(reader)
    reader.expire(further + 30)  # all of the pack after it, and some
    reader.get_all()
    assert reader.told == [(begun * 28, (begun + 10) * 28), (further * 28, (further + 30) * 28)]
    lost = {*range(begun, begun + 10), *range(further, further + 30)}
    assert reader.read == [bench.sent[number][1] for number in range(COUNT) if number not in lost]


@pytest.mark.parametrize("offset", [BootstrapOffset.STORED, BootstrapOffset.EARLIEST])
def test_what_had_expired_before_a_reader_of_the_earliest_began_is_no_loss(bench: Bench, offset: int) -> None:
    reader = Reader(bench, offset)
    reader.expire()
    bench.simulation.run(HOUR_MS)
    reader.get_all()
    assert reader.told == []
    assert reader.read == reader.bodies(but=range(GONE))


def test_a_look_that_failed_is_made_up_for_though_the_registration_was_lost(bench: Bench) -> None:
    reader = Reader(bench, 10 * 28)
    reader.expire(40)  # within the first pack
    bench.brokers[1].faults.force(Method.PARTITION_REGISTER, 500, times=1_000)
    first = reader.get()
    assert first is not None
    reader.client.confirm(first)  # the look after it fails
    bench.brokers[1].faults.clear()
    bench.brokers[1].faults.half_packs = True
    bench.restart_cleanly(bench.key())
    reader.get_all()
    assert reader.told == [(10 * 28, 40 * 28)]
    assert reader.read == reader.bodies(but=range(40))


def reader_after_a_pack(folder: Path) -> tuple[Reader, int]:
    """It has confirmed its first pack, which ends there."""
    bench = Bench(folder, partitions=1)
    bench.brokers[1].faults.half_packs = True
    bench.send(30)
    reader = Reader(bench)
    first = reader.get()
    assert first is not None
    return reader, reader.client.confirm(first)


def reader_at_a_gap(folder: Path) -> Reader:
    """The index of what it reads next has expired."""
    reader, end = reader_after_a_pack(folder)
    reader.bench.store(reader.bench.key()).expire(end + 5 * 28)
    return reader


def test_wherever_the_look_for_a_loss_is_interrupted_it_is_told(tmp_path: Path) -> None:
    silent = []
    for number in itertools.count():
        reader = reader_at_a_gap(tmp_path / str(number))
        call = reader.client.consumption.get(timeout_ms=500)
        holding = reader.client.registrations.holdings.by_key[reader.bench.key()]
        if not reader.client.do(interrupted_at_check(call, number)):
            break
        begun = holding.doubt is not None
        reader.bench.simulation.run(70_000)
        reader.get_all()
        if begun and not reader.told:
            silent.append(number)
    assert number > 100
    assert silent == []


def get_at_a_gap(folder: Path) -> tuple[Reader, Flow[Any]]:
    reader = reader_at_a_gap(folder)
    return reader, reader.client.consumption.get(timeout_ms=500)


def confirm_of_a_pack_with_a_gap(folder: Path) -> tuple[Reader, Flow[Any]]:
    """Data expired within the pack that is confirmed."""
    reader, end = reader_after_a_pack(folder)
    reader.expire(end // 28 + 3)
    second = reader.get()
    assert second is not None
    return reader, reader.client.consumption.confirm(second, consumed=True)


@pytest.mark.parametrize("inside", [False, True], ids=["while it waits", "in its code"])
@pytest.mark.parametrize("prepared", [get_at_a_gap, confirm_of_a_pack_with_a_gap])
def test_at_each_step_of_the_look_the_caller_can_be_interrupted(
    tmp_path: Path, prepared: Callable[[Path], tuple[Reader, Flow[Any]]], inside: bool
) -> None:
    in_doubt = 0
    for after in itertools.count():
        reader, call = prepared(tmp_path / str(after))
        holding = reader.client.registrations.holdings.by_key[reader.bench.key()]
        if not reader.client.do(interrupted(call, after, inside)):
            break
        begun = holding.doubt is not None
        in_doubt += begun
        reader.bench.simulation.run(70_000)
        reader.get_all()
        assert reader.told or not begun, f"after {after} steps"
    assert in_doubt >= 5
