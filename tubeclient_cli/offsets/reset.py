"""Resets a group: parses where to, plans what would move, checks whether it may, and commits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from offsets_store import GroupKey, GroupProgress, OffsetsRun, OffsetsTable, moved_to
from spark_source.offsets.offset_spec import OffsetSpec
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, is_plain_number, rows_behind
from tubeclient.wire.message_time import zone_named
from tubeclient_cli.common.moves import PositionMove
from tubeclient_cli.common.places import offsets_of, parse_place

if TYPE_CHECKING:
    from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["Commit", "Places", "Plan", "Reset", "Target", "choose_key", "parse_target"]

_TO: Final = "--to"


@dataclass(frozen=True, slots=True)
class Commit:
    """The group's position after its commit of this number."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Places:
    """Positions as the source's options describe them; partitions that are not named stay."""

    spec: OffsetSpec
    time_zone: str
    """Of the clocks that wrote the messages' times; an IANA name."""


Target = Commit | Places


def parse_target(text: str, time_zone: str = "UTC") -> Target:
    """Parse the value of --to. Raises ConfigurationError."""
    word, colon, rest = text.strip().partition(":")
    if colon and word == "batch":
        if not (is_plain_number(rest) and int(rest) > 0):
            raise ConfigurationError(
                f"{_TO} is {text!r}; write batch: and a commit's number (1 or higher); `history` lists them"
            )
        return Commit(int(rest))
    zone = zone_named(time_zone)
    return Places(parse_place(text, _TO, zone, "batch:N, "), zone.key)


def choose_key(
    kept: Sequence[GroupProgress], consumer_group: str, topics: Sequence[str], pattern: str | None
) -> GroupKey:
    """Return the topic set that is meant: the given one, otherwise the table's only one. Raises ConfigurationError."""
    if topics and pattern is not None:
        raise ConfigurationError("give --topic or --topic-pattern, not both")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"--topic-pattern {pattern!r} is not a regular expression: {error}") from None
        return GroupKey(consumer_group, pattern=pattern)
    if topics:
        try:
            return GroupKey(consumer_group, topics)
        except ValueError as error:
            raise ConfigurationError(f"--topic: {error}") from None
    if len(kept) == 1:
        return kept[0].group
    if not kept:
        raise ConfigurationError(
            f"the offsets table has nothing of group {consumer_group}; check both names, or name the group's topics "
            "with --topic"
        )
    sets = "; ".join(progress.group.topic_set for progress in kept)
    raise ConfigurationError(
        f"group {consumer_group} has {len(kept)} sets of topics, {sets}; choose one with --topic or --topic-pattern"
    )


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
    def moves(self) -> tuple[PositionMove, ...]:
        """The partitions that move, sorted."""
        before = self._before
        return tuple(
            PositionMove(partition, before.get(partition), self.positions.get(partition))
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
                wanted = _as_kept(before, then.positions)
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
            others="batch:N instead, ",
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


def _as_kept(before: Mapping[PartitionKey, int], then: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
    """The positions `then`, and those of `before` in topics that `then` does not have.

    A topic counts as a whole: a partition that it did not have then is unknown afterwards, and is read from its
    beginning.
    """
    topics = {partition.topic for partition in then}
    return {**{partition: at for partition, at in before.items() if partition.topic not in topics}, **then}
