"""Consumer groups, and a move of their positions, as `tubeclient groups` shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tubeclient.errors import ConfigurationError, TubeError, UnknownGroup
from tubeclient.keys import PartitionKey, StoreBounds, rows_behind
from tubeclient.names import why_no_group
from tubeclient.printable import counted
from tubeclient_cli.facts.position_moves import Moves, moves_to
from tubeclient_cli.facts.topics import topics_known

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.admin import Admin, GroupDetail, GroupOffsets
    from tubeclient.settings import ClientSettings


def group_rows(admin: Admin, silent: dict[int, TubeError]) -> list[dict[str, Any]]:
    """The groups with clients online, and those of which brokers keep positions, of which the topics are not known.
    `silent` gets the brokers that do not answer, by id. Raises TubeError."""
    rows: list[dict[str, Any]] = [
        {"group": group.name, "clients": group.members, "topics": sorted(group.topics)} for group in admin.groups()
    ]
    others = set(admin.stored_groups(silent=silent)) - {row["group"] for row in rows}
    return rows + [{"group": name, "clients": 0, "topics": []} for name in sorted(others) if why_no_group(name) is None]


def group_facts(admin: Admin, name: str, silent: dict[int, TubeError] | None = None) -> dict[str, Any]:
    """A group's clients and its positions at the brokers. `silent` as in `Admin.group_offsets`. Raises TubeError."""
    found = admin.group(name)
    partitions = [key for topic in admin.topics(found.topics) for key in topic.partitions()] if found.topics else []
    try:
        positions = admin.group_offsets(name, silent=silent)
    except UnknownGroup:
        positions = None
    return _group_json(found, partitions, positions)


def _group_json(
    group: GroupDetail, partitions: Sequence[PartitionKey], positions: GroupOffsets | None
) -> dict[str, Any]:
    """`partitions` are all of the group's topics; `positions` is None if no broker has any."""
    free = set(partitions).difference(*(member.partitions for member in group.members))
    return {
        "group": group.name,
        "kind": str(group.kind),
        "topics": sorted(group.topics),
        "filters": {topic: sorted(tags) for topic, tags in sorted(group.filters.items())},
        "clients": [
            {
                "nodeId": member.node_id,
                "sourceCount": member.source_count,
                "clientId": member.client_id,
                "host": member.host,
                "overTls": member.over_tls,
                "partitions": [*map(str, member.partitions)],
            }
            for member in group.members
        ],
        "unowned": [*map(str, sorted(free))],
        "messagesBehindAtMost": None if positions is None else positions.rows_behind,
        "beyondEnd": [] if positions is None else [*map(str, positions.beyond_end)],
        "partitions": [
            {
                "partition": str(position.partition),
                "position": position.committed,
                "inFlightBytes": position.in_flight,
                "endOffset": position.end,
                "messagesBehindAtMost": position.rows_behind,
            }
            for position in (() if positions is None else positions.positions)
        ],
    }


def messages_behind(limits: Mapping[PartitionKey, StoreBounds], at: Mapping[PartitionKey, int]) -> int:
    """The most messages between `at` and the ends of these partitions. One that is not in `at` counts from its
    beginning."""
    ends = {key: bounds.max_offset for key, bounds in limits.items()}
    return rows_behind(ends, {key: bounds.nearest(at.get(key, 0)) for key, bounds in limits.items()})


def check_offline(admin: Admin, group: str) -> None:
    """ConfigurationError if the group has clients online: they would go on from where they are."""
    if members := admin.group(group).members:
        raise ConfigurationError(
            f"group {group} has {counted(len(members), 'client')} online, {members[0].client_id} among them; stop "
            "them, or use --force to move it anyway"
        )


def planned_moves(
    settings: ClientSettings, admin: Admin, group: str, topics: Sequence[str], spec: OffsetSpec, time_zone: str
) -> Moves:
    """What would move to `spec`. Raises TubeError."""
    from tubeclient.consumers.group import fetch_view
    from tubeclient.names import reader_groups_of
    from tubeclient.positions.offset_lookup import OffsetLookup

    readers = reader_groups_of("tubeclient_admin")
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
    with topics_known(settings, wanted):
        view = fetch_view(settings, wanted, readers)
    with contextlib.closing(OffsetLookup(settings, readers)) as lookup:
        return moves_to(spec, before, view, lookup, lookup.bounds(view), time_zone)
