"""All groups that master, brokers or an offsets table know."""

from __future__ import annotations

from typing import NamedTuple

from tubeclient.admin import Admin
from tubeclient.names import why_no_group
from tubeclient_cli.common.offsets_tables import listed

__all__ = ["KnownGroup", "known_groups"]


class KnownGroup(NamedTuple):
    """A consumer group, with clients online or not."""

    name: str
    clients: int
    """Online, according to the master."""
    topics: tuple[str, ...]
    """Sorted; patterns as the table writes them. () if unknown: brokers keep positions without being asked for
    topics."""
    known_to: tuple[str, ...]
    """"master", "brokers", "offsets table"."""


def known_groups(admin: Admin, offsets_table: str | None, storage_options: list[str] | None) -> list[KnownGroup]:
    """The groups, sorted by name; without reader groups that only brokers know. Raises TubeError, OffsetsTableError,
    and ConfigurationError if there is no such table."""
    kept = {} if offsets_table is None else listed(offsets_table, storage_options)
    online = {group.name: group for group in admin.groups()}
    stored = {name for name in admin.stored_groups() if why_no_group(name) is None}
    found = []
    for name in sorted({*online, *stored, *kept}):
        topics = set(online[name].topics) if name in online else set()
        for progress in kept.get(name, ()):
            topics.update(progress.group.topics or [progress.group.topic_set])
        places = {"master": online, "brokers": stored, "offsets table": kept}
        clients = online[name].members if name in online else 0
        known_to = tuple(place for place, names in places.items() if name in names)
        found.append(KnownGroup(name, clients, tuple(sorted(topics)), known_to))
    return found
