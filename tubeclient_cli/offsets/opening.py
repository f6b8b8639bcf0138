"""What the commands open: an offsets table, and the part of a cluster that a group reads."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.pairs import further_options, pairs

if TYPE_CHECKING:
    from offsets_store import GroupKey, OffsetsTable
    from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["brokers_of", "nothing_kept", "table_at"]

_FLAGS = {"offsetstable": "--offsets-table", "subscribepattern": "--topic-pattern", "messagetimezone": "--time-zone"}


def table_at(uri: str, storage_options: list[str] | None, client_version: str | None = None) -> OffsetsTable:
    """The table at `uri`. ConfigurationError for an option that is not NAME=VALUE."""
    from offsets_store import OffsetsTable

    return OffsetsTable(uri, pairs("--storage-option", storage_options), client_version=client_version)


@contextlib.contextmanager
def brokers_of(master_servers: str | None, key: GroupKey, options: list[str] | None) -> Iterator[Brokers | None]:
    """The part of the cluster that `key` reads; None if no masters are named. ConfigurationError."""
    given = further_options(options, _FLAGS)
    if master_servers is None:
        if given:
            raise ConfigurationError("--option is for the connection to the cluster; add --master-servers")
        yield None
        return
    from tubeclient_cli.offsets.brokers import Brokers

    brokers = Brokers(master_servers, key, given)
    try:
        yield brokers
    finally:
        brokers.close()


def nothing_kept(table: OffsetsTable, uri: str, consumer_group: str) -> ConfigurationError:
    """The error for a group of which the table has nothing; it names groups that are spelled alike."""
    from offsets_store.errors import display_uri

    place = display_uri(uri)
    if not table.exists():
        return ConfigurationError(
            f"there is no Delta table at {place}; check --offsets-table. The first batch of a query with the option "
            "offsetsTable creates the table"
        )
    groups = table.groups()
    near = difflib.get_close_matches(consumer_group, groups, n=3)
    if near:
        advice = f"did you mean {' or '.join(near)}?"
    elif groups:
        advice = "check both names"
    else:
        advice = "it has no group yet: a query writes to it when it starts"
    return ConfigurationError(f"the offsets table at {place} has nothing of group {consumer_group}; {advice}")
