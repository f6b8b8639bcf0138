"""Resets a group: plans what would move, checks whether it may, and commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsets_store import GroupKey, GroupProgress, Move, OffsetsRun, OffsetsTable, moved_to
from spark_source.offsets.offset_spec import OffsetSpec
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, rows_behind
from tubeclient_cli.common.places import offsets_of
from tubeclient_cli.offsets.target import Commit, OtherGroup, Places, Target

if TYPE_CHECKING:
    from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["Plan", "Reset", "as_kept"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reset would do."""

    key: GroupKey
    current: GroupProgress | None
    """The progress that the plan is based on; None if the table has nothing of the group."""
    positions: Mapping[PartitionKey, int]
    """All of the group's positions afterwards."""
    ends: Mapping[PartitionKey, int]
    """The ends of the brokers' data, where looked up."""
    warnings: tuple[str, ...]
    forgets_start: bool = False
    """Whether the reset drops kept initial offsets."""

    @property
    def changes(self) -> bool:
        """Whether the table changes."""
        return bool(self.moves) or self.forgets_start

    @property
    def moves(self) -> tuple[Move, ...]:
        """The partitions that move, sorted."""
        before = self._before
        return tuple(
            Move(partition, before.get(partition), self.positions.get(partition))
            for partition in sorted(before.keys() | self.positions.keys())
            if before.get(partition) != self.positions.get(partition)
        )

    @property
    def rows_again(self) -> int:
        """Upper bound of the rows read again; partitions that are no longer known do not count."""
        return self._rows_between(self.positions, self._before)

    @property
    def rows_skipped(self) -> int:
        """Upper bound of the rows skipped; rows of partitions that were unknown do not count."""
        return self._rows_between(self._before, self.positions)

    @property
    def _before(self) -> Mapping[PartitionKey, int]:
        return {} if self.current is None else self.current.positions

    @staticmethod
    def _rows_between(start: Mapping[PartitionKey, int], end: Mapping[PartitionKey, int]) -> int:
        return rows_behind({p: at for p, at in end.items() if p in start}, start)


class Reset:
    """The reset of the group of `key` in `table`. Methods raise ConfigurationError, OffsetsTableError and TubeError."""

    def __init__(self, table: OffsetsTable, key: GroupKey, brokers: Brokers | None) -> None:
        self._table = table
        self._key = key
        self._brokers = brokers

    def plan(self, target: Target) -> Plan:
        """Find out what would move; changes nothing."""
        current = self._table.latest(self._key)
        before = {} if current is None else current.positions
        match target:
            case Commit(sequence):
                then = self._table.at_sequence(self._key, sequence)
                if then is None:
                    raise ConfigurationError(f"after commit {sequence}, nothing was kept of {self._key}")
                wanted = as_kept(before, then.positions)
            case OtherGroup(name):
                wanted = as_kept(before, self._positions_of(name))
            case Places(spec, time_zone):
                wanted = {**before, **self._places(spec, time_zone, before)}
        positions, warnings = self._within_bounds(wanted)
        if not positions:
            raise ConfigurationError(f"{self._key} would have no position left; choose another --to")
        forgets_start = self._table.keeps_start(self._key)
        if forgets_start:
            warnings.append(
                "the table drops the initial offsets of a query whose first batch may be incomplete: start with a new "
                "checkpoint, because the old one may skip rows of that batch"
            )
        return Plan(self._key, current, positions, self._ends(positions), tuple(warnings), forgets_start)

    def take_over(self, plan: Plan, *, force: bool) -> OffsetsRun:
        """Begin the run that will write; writes nothing yet. Raises RunAlive or ConfigurationError for a live group,
        unless `force`."""
        if not force:
            self._check_no_consumers()
        source_count = 1 if plan.current is None else plan.current.source_count
        return self._table.open_run(self._key, source_count, force=force)

    def apply(self, plan: Plan, run: OffsetsRun, *, force: bool) -> bool:
        """Write the plan's positions; False if the table already has them.

        ConfigurationError if the group moved since the plan was made, or has consumers by now, unless `force`.
        """
        if not force:
            self._check_no_consumers()
        now = self._table.latest(self._key)
        if not force and now != plan.current:
            raise ConfigurationError(f"another writer moved {self._key} meanwhile; check its position and try again")
        run.clear_initial()
        return run.record(moved_to(plan.current, plan.positions, plan.ends))

    def _check_no_consumers(self) -> None:
        consumers = () if self._brokers is None else self._brokers.consumers()
        if consumers:
            raise ConfigurationError(
                f"group {self._key.consumer_group} is live: the master lists {len(consumers)} of its consumers, "
                f"{consumers[0].client_id} among them. Stop them, or add --force: those that record in the table then "
                "stop at their next commit"
            )

    def _positions_of(self, name: str) -> Mapping[PartitionKey, int]:
        """Another group's positions, per topic from the table or otherwise from the brokers."""
        kept = {
            topic
            for progress in self._table.all_latest(name)
            for topic in (partition.topic for partition in progress.positions)
            if self._key.covers(topic)
        }
        found = self._table.positions(name, kept)
        if self._brokers is not None and not kept.issuperset(key.topic for key in self._brokers.view.partitions()):
            told = self._brokers.positions_of(name)
            found.update({partition: at for partition, at in told.items() if partition.topic not in kept})
        if not found:
            alone = self._brokers is None
            raise ConfigurationError(
                ("the offsets table has no" if alone else "neither the offsets table nor a broker has a")
                + f" position of group {name} in the topics of {self._key}; check the name"
                + (", or add --master-servers to query the brokers as well" if alone else "")
            )
        return found

    def _places(
        self, spec: OffsetSpec, time_zone: str, before: Mapping[PartitionKey, int]
    ) -> Mapping[PartitionKey, int]:
        """The offsets of the partitions in `spec`."""
        named = dict(spec.named)
        if self._brokers is None:
            plain = {partition: at for partition, at in named.items() if isinstance(at, int)}
            if spec.default is not None or len(plain) < len(named) or not plain.keys() <= before.keys():
                raise ConfigurationError(
                    f"{spec.option} needs offsets that only the brokers know, or names partitions that the table does "
                    "not have; add --master-servers"
                )
            return plain
        return offsets_of(
            spec,
            self._brokers.view.partitions(),
            self._brokers.lookup,
            self._brokers.view,
            self._brokers.bounds,
            time_zone,
            before=before,
            missing=f"the topics of {self._key} do not have",
            others="batch:N or group:NAME instead, ",
        )

    def _within_bounds(self, wanted: Mapping[PartitionKey, int]) -> tuple[dict[PartitionKey, int], list[str]]:
        """Move offsets that the brokers do not hold to the nearest that they hold, and return warnings."""
        if self._brokers is None:
            return dict(wanted), []
        there = set(self._brokers.view.partitions())
        positions, warnings = {}, []
        for partition, at in wanted.items():
            positions[partition] = at
            if partition not in there:
                warnings.append(f"{partition} is not in the cluster any more")
                continue
            held = self._brokers.bounds[partition.store]
            positions[partition] = held.nearest(at)
            if positions[partition] != at:
                warnings.append(
                    f"{partition} would be at {at}, but the broker holds {held.min_offset} to {held.max_offset}; "
                    f"using {positions[partition]}"
                )
        return positions, warnings

    def _ends(self, partitions: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        if self._brokers is None:
            return {}
        there = set(self._brokers.view.partitions())
        return {p: self._brokers.bounds[p.store].max_offset for p in partitions if p in there}


def as_kept(before: Mapping[PartitionKey, int], then: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
    """The positions `then`, and those of `before` in topics that `then` does not have.

    A topic counts as a whole: a partition that it did not have then is unknown afterwards, and is read from its
    beginning.
    """
    topics = {partition.topic for partition in then}
    return {**{partition: at for partition, at in before.items() if partition.topic not in topics}, **then}
