"""Offsets tables as the commands open them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tubeclient.errors import ConfigurationError
from tubeclient.names import GroupName, group_name, near_names
from tubeclient_cli.common.pairs import pairs
from tubeclient_cli.common.terminal import tell

if TYPE_CHECKING:
    from offsets_store import GroupProgress, OffsetsTable

__all__ = ["NO_TABLE", "kept_group", "listed", "no_table", "nothing_kept", "progress_in", "table_at"]

_CREATED_BY: Final = "check --offsets-table. The first batch of a query with the option offsetsTable creates the table"

NO_TABLE: Final = f"there is no Delta table; {_CREATED_BY}"
"""Beside the table's name."""


def table_at(uri: str, storage_options: list[str] | None, client_version: str | None = None) -> OffsetsTable:
    """The table at `uri`. ConfigurationError for an option that is not NAME=VALUE."""
    from offsets_store import OffsetsTable
    from spark_source.options.table_uris import limited

    options = limited(uri, pairs("--storage-option", storage_options))
    return OffsetsTable(uri, options, client_version=client_version)


def progress_in(table: OffsetsTable, consumer_group: str) -> list[GroupProgress]:
    """The progress of each topic set of the group, and where its newest run begins if it has completed no batch yet.
    OffsetsTableError."""
    begun = table.begun(consumer_group)
    return [*table.all_latest(consumer_group), *([] if begun is None else [begun])]


def kept_group(name: str) -> GroupName:
    """The group of a name that a table has. ConfigurationError for one that no group can have."""
    if (group := group_name(name)) != name:
        raise ConfigurationError(f"{name!r} is not a group name: it has blanks around it; another tool wrote it")
    return group


def listed(uri: str, storage_options: list[str] | None) -> dict[str, list[GroupProgress]]:
    """The progress of each group of the table at `uri`, sorted by name. A group whose name cannot be one, or whose rows
    a newer release wrote, is said on standard error, and left out. ConfigurationError if there is no table;
    OffsetsTableError."""
    from offsets_store import SchemaMismatch

    table = table_at(uri, storage_options)
    names = table.groups()
    if not names and not table.exists():
        raise no_table(uri)
    found = {}
    for name in names:
        try:
            found[name] = progress_in(table, kept_group(name))
        except (ConfigurationError, SchemaMismatch, ValueError) as error:
            tell(f"group {name!r} is left out: {error}")
    return found


def no_table(uri: str) -> ConfigurationError:
    """The error for an offsets table that is not there."""
    from offsets_store.errors import display_uri

    return ConfigurationError(f"there is no Delta table at {display_uri(uri)}; {_CREATED_BY}")


def nothing_kept(table: OffsetsTable, uri: str, consumer_group: str) -> ConfigurationError:
    """The error for a group of which the table has nothing; it names groups that are spelled alike."""
    from offsets_store.errors import display_uri

    place = display_uri(uri)
    if not table.exists():
        return no_table(uri)
    groups = table.groups()
    near = near_names([consumer_group], groups, most=3)
    if near:
        advice = near
    elif groups:
        advice = "check both names"
    else:
        advice = "it has no group yet: a query writes to it when it starts"
    return ConfigurationError(f"the offsets table at {place} has nothing of group {consumer_group}; {advice}")
