"""Resets a group: plans what would move, checks whether it may, and commits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsets_store import GroupKey, GroupProgress, OffsetsRun, OffsetsTable, moved_to
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, is_plain_number
from tubeclient.wire.message_time import zone_named
from tubeclient_cli.common.places import PositionMove, offsets_of, parse_place
from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["Plan", "Reset", "choose_key"]


def choose_key(
    kept: Sequence[GroupProgress], consumer_group: str, topics: Sequence[str], pattern: str | None
) -> GroupKey:
    """Return the topic set that is meant: the given one, otherwise the table's only one. Raises ConfigurationError."""
    if topics and pattern is not None:
        raise ConfigurationError("give --topic or --topic-pattern, not both")
    try:
        if pattern is not None:
            re.compile(pattern)
            return GroupKey(consumer_group, pattern=pattern)
        if topics:
            return GroupKey(consumer_group, topics)
    except (re.error, ValueError) as error:
        raise ConfigurationError(f"--topic{'' if topics else '-pattern'}: {error}") from None
    if len(kept) == 1:
        return kept[0].group
    sets = "; ".join(progress.group.topic_set for progress in kept)
    raise ConfigurationError(
        f"group {consumer_group} has {len(kept)} sets of topics, {sets}; choose one with --topic or --topic-pattern"
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reset would do."""

    current: GroupProgress | None
    """The progress that the plan is based on; None if the table has nothing of the group."""
    positions: Mapping[PartitionKey, int]
    """All of the group's positions afterwards."""
    ends: Mapping[PartitionKey, int]
    """The ends of the brokers' data."""
    moves: Sequence[PositionMove]
    """The partitions that move, sorted."""
    warnings: Sequence[str]
    forgets_start: bool
    """Whether the reset drops kept initial offsets."""

    @property
    def changes(self) -> bool:
        """Whether the table changes."""
        return bool(self.moves) or self.forgets_start


class Reset:
    """The reset of the group of `key` in `table`. Methods raise ConfigurationError, OffsetsTableError and TubeError."""

    def __init__(self, table: OffsetsTable, key: GroupKey, brokers: Brokers, *, force: bool) -> None:
        self._table = table
        self._key = key
        self._brokers = brokers
        self._force = force

    def plan(self, to: str, time_zone: str) -> Plan:
        """Find out what would move to the place `to`, the value of --to; changes nothing."""
        current = self._table.latest(self._key)
        before = {} if current is None else current.positions
        word, colon, number = to.strip().partition(":")
        if colon and word == "batch":
            wanted = self._after_commit(number, before)
        else:
            wanted = {**before, **self._places(to, time_zone, before)}
        positions, ends, warnings = self._within_bounds(wanted)
        if not positions:
            raise ConfigurationError(f"{self._key} would have no position left; choose another --to")
        moves = [
            PositionMove(partition, before.get(partition), positions.get(partition))
            for partition in sorted(before.keys() | positions.keys())
            if before.get(partition) != positions.get(partition)
        ]
        forgets_start = self._table.keeps_start(self._key)
        if forgets_start:
            warnings.append(
                "the table drops the initial offsets of a query whose first batch may be incomplete: start with a new "
                "checkpoint, because the old one may skip rows of that batch"
            )
        return Plan(current, positions, ends, moves, warnings, forgets_start)

    def take_over(self, plan: Plan) -> OffsetsRun:
        """Begin the run that will write; writes nothing yet. RunAlive or ConfigurationError for a live group."""
        self._check_no_consumers()
        source_count = 1 if plan.current is None else plan.current.source_count
        return self._table.open_run(self._key, source_count, force=self._force)

    def apply(self, plan: Plan, run: OffsetsRun) -> None:
        """Write the plan's positions. ConfigurationError if the group moved since the plan was made, or has consumers
        by now."""
        self._check_no_consumers()
        if not self._force and self._table.latest(self._key) != plan.current:
            raise ConfigurationError(f"another writer moved {self._key} meanwhile; check its position and try again")
        run.clear_initial()
        run.record(moved_to(plan.current, plan.positions, plan.ends))

    def _check_no_consumers(self) -> None:
        consumers = () if self._force else self._brokers.consumers()
        if consumers:
            raise ConfigurationError(
                f"group {self._key.consumer_group} is live: the master lists {len(consumers)} of its consumers, "
                f"{consumers[0].client_id} among them. Stop them, or add --force: those that record in the table then "
                "stop at their next commit"
            )

    def _after_commit(self, number: str, before: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        """The positions after that commit, and those of `before` in topics that it does not have. A topic counts as a
        whole: a partition that it did not have then is unknown afterwards, and is read from its beginning."""
        if not (is_plain_number(number) and int(number) > 0):
            raise ConfigurationError("--to is batch: and a commit's number (1 or higher); `history` lists them")
        then = self._table.at_sequence(self._key, int(number))
        if then is None:
            raise ConfigurationError(f"after commit {number}, nothing was kept of {self._key}")
        topics = {partition.topic for partition in then.positions}
        return {
            **{partition: at for partition, at in before.items() if partition.topic not in topics},
            **then.positions,
        }

    def _places(self, to: str, time_zone: str, before: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, int]:
        zone = zone_named(time_zone)
        spec = parse_place(to, "--to", zone, "batch:N, ")
        return offsets_of(
            spec,
            self._brokers.view.partitions(),
            self._brokers.lookup,
            self._brokers.view,
            self._brokers.bounds,
            zone.key,
            before=before,
        )

    def _within_bounds(
        self, wanted: Mapping[PartitionKey, int]
    ) -> tuple[dict[PartitionKey, int], dict[PartitionKey, int], list[str]]:
        """Move offsets that the brokers do not hold to the nearest that they hold; with the ends, and warnings."""
        held = {partition: self._brokers.bounds[partition.store] for partition in self._brokers.view.partitions()}
        positions = {key: held[key].nearest(at) if key in held else at for key, at in wanted.items()}
        warnings = [f"{key} is not in the cluster any more" for key in wanted if key not in held]
        warnings += [
            f"{key} would be at {at}, but the broker holds {held[key].min_offset} to {held[key].max_offset}; using "
            f"{positions[key]}"
            for key, at in wanted.items()
            if positions[key] != at
        ]
        return positions, {key: held[key].max_offset for key in positions if key in held}, warnings
