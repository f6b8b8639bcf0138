"""Seeded runs on a real Iceberg table: drivers that die, lag or stand still, and others who set it back, let snapshots
expire, add rows and tags. What the table has of the group is always a beginning of what was sent, each number once; and
whoever begins goes on right behind it, or asks."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from tests.tubeclient_ingest.test_iceberg_table import KEY, Writing
from tubeclient_ingest.commits.beginning import OvertakenRun, TableChanged, UnknownRows, check_beginning, trusted
from tubeclient_ingest.tables.iceberg_table import IcebergTable
from tubeclient_ingest.tables.spark_errors import LogError

ENTRY = 28
OF_OTHERS = 1_000_000
STEPS = 40
DRIVERS = 2


class Killed(BaseException):
    """The driver dies."""


class Driver(Writing):
    at = 0
    """How many numbers it knows to be there."""


class World:
    def __init__(self, lake: Path, seed: int) -> None:
        self.lake, self.rng = lake, random.Random(seed)
        self.drivers: list[Driver | None] = [None] * DRIVERS
        self.may_ask = False
        """Whether somebody did what leaves it unknown where the group's rows end."""
        self.log: list[str] = []
        self.commits = 0

    @property
    def rows(self) -> list[int]:
        """The group's."""
        return [one for (one, _) in Writing(self.lake).open().rows() if one < OF_OTHERS]

    def begin(self) -> Driver:
        """A new run, with its user's answer if it asks."""
        one = Driver(self.lake)
        one.open()
        try:
            check_beginning(one.state, "t", "g", {KEY.topic}, None)
            one.state = trusted(one.state, "t", "g", None)
        except UnknownRows:
            assert self.may_ask, "it asks, and nobody did anything"
            self.log.append("asked")
            if one.state.record is not None:
                one.state = trusted(one.state, "t", "g", "target")
        end = one.state.ends.get(KEY)
        there = len(self.rows)
        assert end is None or end == there * ENTRY, f"it would go on at {end}, and there are {there} rows"
        assert end is not None or there == 0 or self.may_ask, "it would begin anew"
        one.at = there
        return one

    def write(self) -> None:
        """One driver writes what comes next for it, and may die before or after."""
        number = self.rng.randrange(DRIVERS)
        one = self.drivers[number] = self.drivers[number] or self.begin()
        new = range(one.at, one.at + self.rng.randrange(4))
        fate = self.rng.choice(["", "", "", "before", "after"])
        real = IcebergTable.commit

        def commit(*given: object) -> None:
            if fate == "before":
                raise Killed
            real(*given)  # type: ignore[arg-type]
            if fate == "after":
                raise Killed

        try:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(IcebergTable, "commit", commit)
                one.write(*((each, "x") for each in new), end=new.stop * ENTRY)
            one.at, self.may_ask = new.stop, False
            self.commits += 1
        except (Killed, OvertakenRun, UnknownRows, TableChanged, LogError) as error:
            self.log.append(type(error).__name__)
            self.drivers[number] = None
            self.may_ask = self.may_ask and not (isinstance(error, Killed) and fate == "after")

    def append(self) -> None:
        self.handle.append(pa.table({"id": [OF_OTHERS], "name": ["y"]}))

    def set_back(self) -> None:
        ancestors = self.ancestors()
        if len(ancestors) > 1:
            self.handle.manage_snapshots().rollback_to_snapshot(self.rng.choice(ancestors[1:])).commit()
            self.may_ask = True  # perhaps to before the group's first commit that is known

    def expire(self) -> None:
        current = self.handle.metadata.current_snapshot_id
        old = [one.snapshot_id for one in self.handle.snapshots() if one.snapshot_id != current]
        with suppress(ValueError):  # a tag keeps one
            if old:
                chosen = self.rng.sample(old, self.rng.randrange(1, len(old) + 1))
                self.handle.maintenance.expire_snapshots().by_ids(chosen).commit()
        self.may_ask = True

    def tag(self) -> None:
        if found := self.handle.snapshots():
            name = f"t{self.rng.randrange(1 << 30)}"
            self.handle.manage_snapshots().create_tag(self.rng.choice(found).snapshot_id, name).commit()

    def delete(self) -> None:
        self.handle.delete(f"id = {OF_OTHERS}")
        self.may_ask = True

    def stop(self) -> None:
        self.drivers[self.rng.randrange(DRIVERS)] = None

    @property
    def handle(self):  # type: ignore[no-untyped-def]
        return Writing(self.lake).open().handle

    def ancestors(self) -> list[int]:
        by_id = {one.snapshot_id: one for one in self.handle.snapshots()}
        found, at = [], self.handle.metadata.current_snapshot_id
        while at in by_id:
            found.append(at)
            at = by_id[at].parent_snapshot_id
        return found


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@pytest.mark.parametrize("seed", range(6))
def test_each_number_is_there_once_whatever_happens(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path / "lake", seed)
    others = [world.append, world.set_back, world.expire, world.tag, world.delete, world.stop]
    for step in range(STEPS):
        act = world.write if world.rng.random() < 0.7 else world.rng.choice(others)
        world.log.append(act.__name__)
        act()
        rows = world.rows
        assert rows == [*range(len(rows))], (step, world.log)
    assert world.commits
