"""What a move or a clone of a group's positions would change."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tubeclient.admin import Admin
from tubeclient.errors import ConfigurationError, UnknownGroup
from tubeclient.group import fetch_view
from tubeclient.keys import PartitionKey
from tubeclient.names import reader_groups_of
from tubeclient.offset_lookup import OffsetLookup
from tubeclient.settings import ClientSettings
from tubeclient_cli.common.places import held, offsets_of

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec

__all__ = ["PositionMove", "check_clone_holds", "check_move_holds", "cloned", "planned"]

_GROUPS: Final = reader_groups_of("tubeclient_admin")


class PositionMove(NamedTuple):
    """One partition; index offsets."""

    partition: PartitionKey
    before: int | None
    """None: the group has no position there."""
    after: int


def planned(
    settings: ClientSettings, admin: Admin, group: str, topics: Sequence[str], spec: OffsetSpec, time_zone: str
) -> list[PositionMove]:
    """The partitions that would move to `spec`, sorted. Raises TubeError."""
    before = _positions(admin, group, topics)
    wanted = sorted(set(topics) or {key.topic for key in before} or {key.topic for key, _ in spec.named})
    if not wanted:
        raise ConfigurationError(
            f"the brokers have no position of group {group}; name its topics with --topic, or use `tubeclient offsets "
            "reset` for a query with an offsets table"
        )
    view = fetch_view(settings, wanted, _GROUPS)
    with contextlib.closing(OffsetLookup(settings, _GROUPS)) as lookup:
        bounds = lookup.bounds(view)
        after = held(offsets_of(spec, view.partitions(), lookup, view, bounds, time_zone), bounds)
    return _moves(before, after)


def cloned(admin: Admin, group: str, target: str, topics: Sequence[str]) -> list[PositionMove]:
    """The partitions of `target` that would move, sorted. UnknownGroup if no broker has positions of `group`."""
    return _moves(_positions(admin, target, topics), admin.group_offsets(group, topics).committed)


def check_move_holds(admin: Admin, group: str, moves: Sequence[PositionMove]) -> None:
    """ConfigurationError if the group is no longer where `moves`, of `planned`, begin."""
    now = _positions(admin, group, sorted({move.partition.topic for move in moves}))
    _check_still(group, moves, [move._replace(before=now.get(move.partition)) for move in moves])


def check_clone_holds(
    admin: Admin, group: str, target: str, topics: Sequence[str], moves: Sequence[PositionMove]
) -> None:
    """ConfigurationError if `cloned` no longer gives these moves."""
    _check_still(f"{group} or {target}", moves, cloned(admin, group, target, topics))


def _check_still(groups: str, shown: Sequence[PositionMove], now: Sequence[PositionMove]) -> None:
    changed = sorted({move.partition for move in set(shown) ^ set(now)})
    if changed:
        raise ConfigurationError(
            f"group {groups} moved since its positions were shown, in {changed[0]}"
            + (f" and {len(changed) - 1} more partitions" if len(changed) > 1 else "")
            + "; nothing was changed. Run it again; --yes takes the positions of that moment"
        )


def _positions(admin: Admin, group: str, topics: Sequence[str]) -> Mapping[PartitionKey, int]:
    try:
        return admin.group_offsets(group, topics).committed
    except UnknownGroup:
        return {}


def _moves(before: Mapping[PartitionKey, int], after: Mapping[PartitionKey, int]) -> list[PositionMove]:
    return [PositionMove(key, before.get(key), at) for key, at in sorted(after.items()) if before.get(key) != at]
