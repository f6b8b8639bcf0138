"""Whether each master answers in TubeMQ's protocol. A connection alone does not show it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Final

from tubeclient.access import masters_of
from tubeclient.errors import TubeError
from tubeclient.flows.master import GroupNode, knock
from tubeclient.identity import host_name, new_client_id
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings

__all__ = ["knock_at_masters"]

_GROUP: Final = "tubeclient_doctor"
_THREADS: Final = 16


def knock_at_masters(settings: ClientSettings) -> dict[str, TubeError | None]:
    """By each master's "host:port": None if it answers, active or standby, otherwise why not. An answer may also be a
    refusal of our user. Takes `connect_timeout_ms` and `rpc_timeout_ms` at most, 16 masters at a time; joins no group.
    """
    with ThreadPoolExecutor(_THREADS) as threads:
        errors = threads.map(partial(_error_of, settings), settings.master_servers)
        return dict(zip(settings.master_servers, errors, strict=True))


def _error_of(settings: ClientSettings, address: str) -> TubeError | None:
    stranger = GroupNode(client_id=new_client_id(_GROUP, "knock"), group=_GROUP, topics=(), host_name=host_name())
    with closing(ConnectionPool(settings)) as pool:
        try:
            FlowRunner(pool).run(knock(masters_of(settings), address, stranger))
        except TubeError as error:
            return error
    return None
