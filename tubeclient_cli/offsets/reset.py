"""Resets a group: plans what would move, checks whether it may, and commits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from offsets_store import GroupKey, GroupProgress, OffsetsTable, PartitionProgress
from tubeclient.errors import ConfigurationError
from tubeclient.wire.message_time import zone_named
from tubeclient_cli.facts.position_moves import Moves, moves_to, parse_offset_spec
from tubeclient_cli.offsets.lag import Brokers


def choose_key(
    stored: Sequence[GroupProgress], consumer_group: str, topics: Sequence[str], pattern: str | None
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
    if len(stored) == 1:
        return stored[0].group
    sets = "; ".join(progress.group.topic_set for progress in stored)
    raise ConfigurationError(
        f"group {consumer_group} has {len(stored)} sets of topics, {sets}; choose one with --topic or --topic-pattern"
    )


class Plan(NamedTuple):
    """What a reset would do."""

    current: GroupProgress | None
    """The progress that the plan is based on; None if the table has no position of the group."""
    to: Moves
    warnings: Sequence[str]
    forgets_start: bool
    """Whether the reset drops kept initial offsets."""

    @property
    def changes(self) -> bool:
        """Whether the table changes."""
        return bool(self.to.moves) or self.forgets_start


def plan_of(table: OffsetsTable, key: GroupKey, brokers: Brokers, to: str, time_zone: str) -> Plan:
    """What would move to the place `to`, the value of --to; changes nothing."""
    current = table.latest(key)
    zone = zone_named(time_zone)
    spec = parse_offset_spec(to, "--to", zone)
    before = {} if current is None else current.positions
    moves = moves_to(spec, before, brokers.view, brokers.lookup, brokers.bounds, zone.key)
    if not moves.positions:
        raise ConfigurationError(f"{key} would have no position left; choose another --to")
    warnings, forgets_start = list(moves.warnings), table.keeps_start(key)
    if forgets_start:
        warnings.append(
            "the table drops the initial offsets of a query whose first batch may be incomplete: start the query "
            "with a new checkpoint, because the old one may skip rows of that batch"
        )
    return Plan(current, moves, warnings, forgets_start)


def apply(
    plan: Plan, table: OffsetsTable, key: GroupKey, brokers: Brokers, agree: Callable[[], None], *, force: bool
) -> None:
    """Write the plan's positions. RunAlive or ConfigurationError if the group is live, and not before `agree` has
    returned; ConfigurationError if it moved since the plan was made. `force` skips all of that but the question."""

    def check_no_consumers() -> None:
        consumers = () if force else brokers.consumers()
        if consumers:
            raise ConfigurationError(
                f"group {key.consumer_group} is live: the master lists {len(consumers)} of its consumers, "
                f"{consumers[0].client_id} among them. Stop them, or add --force: those that write to the table then "
                "stop at their next commit"
            )

    current = plan.current
    check_no_consumers()
    run = table.open_run(key, 1 if current is None else current.source_count, force=force)
    agree()
    check_no_consumers()
    if not force and table.latest(key) != current:
        raise ConfigurationError(f"another writer moved {key} in the meantime; check its position and try again")
    nodes = {} if current is None else {row.partition: row.node_id for row in current.partitions}
    run.clear_initial()
    run.record([PartitionProgress(p, at, plan.to.ends.get(p), nodes.get(p)) for p, at in plan.to.positions.items()])
