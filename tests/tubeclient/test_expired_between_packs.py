"""Data that expires between two packs of a consumer, while its index stays: it is told once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tubeclient.consuming import LOOKERS, Bench, Client
from tubeclient.errors import DataLoss, StalePack
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.read_plan import BootstrapOffset

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
        plan = {"confirm_timeout_ms": 10 * HOUR_MS, "reader_groups": LOOKERS, "prefetch": 0, **options}
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
def test_expired_before_start(bench: Bench, offset: int) -> None:
    """A reader that starts at the earliest message reports no loss of what had expired before."""
    reader = Reader(bench, offset)
    reader.expire()
    bench.simulation.run(HOUR_MS)
    reader.get_all()
    assert reader.told == []
    assert reader.read == reader.bodies(but=range(GONE))
