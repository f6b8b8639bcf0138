"""Offsets tables as the commands open them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tubeclient.errors import ConfigurationError
from tubeclient.names import near_names
from tubeclient_cli.common.pairs import pairs

if TYPE_CHECKING:
    from offsets_store import GroupProgress, OffsetsTable

__all__ = ["nothing_kept", "progress_in", "table_at"]


def table_at(
    uri: str, storage_options: list[str] | None, *, may_be_new: bool = False, client_version: str | None = None
) -> OffsetsTable:
    """The table at `uri`. ConfigurationError if there is none, and for an option that is not NAME=VALUE."""
    from offsets_store import OffsetsTable
    from offsets_store.errors import display_uri
    from spark_source.options.table_uris import limited

    options = limited(uri, pairs("--storage-option", storage_options))
    table = OffsetsTable(uri, options, client_version=client_version)
    if not (may_be_new or table.exists()):
        raise ConfigurationError(
            f"there is no Delta table at {display_uri(uri)}; check --offsets-table. The first batch of a query with "
            "the option offsetsTable creates the table"
        )
    return table


def progress_in(table: OffsetsTable, consumer_group: str) -> list[GroupProgress]:
    """The progress of each topic set of the group, and where its newest run begins if it has completed no batch yet.
    OffsetsTableError."""
    begun = table.begun(consumer_group)
    return [*table.all_latest(consumer_group), *([] if begun is None else [begun])]


def nothing_kept(table: OffsetsTable, consumer_group: str) -> ConfigurationError:
    """The error for a group of which the table has nothing; it names groups that are spelled alike."""
    groups = table.groups()
    advice = near_names([consumer_group], groups, most=3) or (
        "check both names" if groups else "it has no group yet: a query writes to it when it starts"
    )
    return ConfigurationError(f"the offsets table has nothing of group {consumer_group}; {advice}")
