"""What a strategy would do if a node or a broker came or went. Computes only; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tubeclient.assignment.comparing import Changes, changes, node_of
from tubeclient.assignment.hints import NO_HINTS, Assignment, Hints
from tubeclient.assignment.strategies import assign
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["broker_added", "broker_lost", "node_added", "node_lost"]


def node_added(
    strategy: str, keys: Iterable[PartitionKey], source_count: int, hints: Hints = NO_HINTS, *, name: str = "new"
) -> Changes:
    """The changes when sourceCount grows by one.

    The new node is the last one; if nodes have names, it gets `name`. `hints.node_rooms` must already have its room.
    """
    partitions = list(keys)
    names = hints.names(source_count)
    more = [*names, name if hints.node_names is not None else str(source_count)]
    before = assign(strategy, partitions, source_count, hints)
    named = None if hints.node_names is None else more
    after = assign(strategy, partitions, source_count + 1, _following(hints, before, node_names=named))
    return changes(before, after, names_before=names, names_after=more)


def node_lost(
    strategy: str, keys: Iterable[PartitionKey], source_count: int, node_id: int, hints: Hints = NO_HINTS
) -> Changes:
    """The changes when a node goes: those after it get an id one smaller, but keep their names, rooms and partitions in
    the hints. ConfigurationError for the only node, and for one that does not exist."""
    if source_count < 2 or not 0 <= node_id < source_count:
        raise ConfigurationError(f"node {node_id} of {source_count} cannot be removed: it is the only one or unknown")
    partitions = list(keys)
    names = hints.names(source_count)
    left = [name for node, name in enumerate(names) if node != node_id]
    before = assign(strategy, partitions, source_count, hints)
    rooms = hints.node_rooms
    if rooms is not None:
        rooms = {node - (node > node_id): room for node, room in rooms.items() if node != node_id}
    without = [of_node for node, of_node in enumerate(before) if node != node_id]
    after = assign(
        strategy,
        partitions,
        source_count - 1,
        replace(_following(hints, without, node_names=left), node_rooms=rooms),
    )
    return changes(before, after, names_before=names, names_after=left)


def broker_added(strategy: str, keys: Iterable[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Changes:
    """The changes when a broker comes, with the next id, that is like the one with the highest id: the same topics and
    partitions, no lag yet, the same room."""
    partitions = set(keys)
    last = max((key.broker_id for key in partitions), default=0)
    twin = [key._replace(broker_id=last + 1) for key in partitions if key.broker_id == last]
    before = assign(strategy, partitions, source_count, hints)
    following = _following(hints, before, node_names=hints.node_names)
    if hints.rooms is not None and last in hints.rooms:
        following = replace(following, rooms={**hints.rooms, last + 1: hints.rooms[last]})
    after = assign(strategy, [*partitions, *twin], source_count, following)
    names = hints.names(source_count)
    return changes(before, after, names_before=names, names_after=names)


def broker_lost(
    strategy: str, keys: Iterable[PartitionKey], source_count: int, broker_id: int, hints: Hints = NO_HINTS
) -> Changes:
    """The changes when a broker is removed from the configuration. A broker that is only down keeps its partitions, and
    nothing moves. ConfigurationError for a broker without partitions."""
    partitions = set(keys)
    left = {key for key in partitions if key.broker_id != broker_id}
    if len(left) == len(partitions):
        raise ConfigurationError(f"broker {broker_id} cannot be removed; it has none of the partitions")
    before = assign(strategy, partitions, source_count, hints)
    following = _following(hints, before, node_names=hints.node_names)
    if hints.plan is not None:
        following = replace(following, plan={key: node for key, node in hints.plan.items() if key in left})
    after = assign(strategy, left, source_count, following)
    names = hints.names(source_count)
    return changes(before, after, names_before=names, names_after=names)


def _following(hints: Hints, before: Assignment, *, node_names: Iterable[str] | None) -> Hints:
    """The hints for the next assignment: the current one becomes `previous`."""
    return replace(
        hints,
        previous=node_of(before),
        node_names=None if node_names is None else tuple(node_names),
    )
