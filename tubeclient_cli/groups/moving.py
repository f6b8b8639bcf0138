"""What a move of a group's positions would change."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tubeclient.admin import Admin
from tubeclient.consumers.group import fetch_view
from tubeclient.errors import ConfigurationError, UnknownGroup
from tubeclient.names import reader_groups_of
from tubeclient.positions.offset_lookup import OffsetLookup
from tubeclient.settings import ClientSettings
from tubeclient_cli.common.moves import PositionMove
from tubeclient_cli.common.places import held, offsets_of

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec

__all__ = ["planned"]

_GROUPS: Final = reader_groups_of("tubeclient_admin")


def planned(
    settings: ClientSettings, admin: Admin, group: str, topics: Sequence[str], spec: OffsetSpec, time_zone: str
) -> list[PositionMove]:
    """The partitions that would move to `spec`, sorted. Raises TubeError."""
    try:
        before = admin.group_offsets(group, topics).committed
    except UnknownGroup:
        before = {}
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
    return [PositionMove(key, before.get(key), at) for key, at in sorted(after.items()) if before.get(key) != at]
