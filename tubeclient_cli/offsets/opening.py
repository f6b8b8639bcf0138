"""The part of a cluster that a group reads, as the commands open it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.pairs import further_options

if TYPE_CHECKING:
    from offsets_store import GroupKey
    from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["brokers_of"]

_FLAGS = {"offsetstable": "--offsets-table", "subscribepattern": "--topic-pattern", "messagetimezone": "--time-zone"}


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
