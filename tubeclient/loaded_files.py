"""The stores' files from a broker's web port, once the broker has loaded them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing

from tubeclient.first_offsets import NEVER_WRITTEN
from tubeclient.keys import BrokerInfo, StoreFiles, StoreKey
from tubeclient.net.pool import ConnectionPool
from tubeclient.settings import ClientSettings

__all__ = ["loaded_files"]


def loaded_files(
    ask: Callable[[Collection[str]], Mapping[StoreKey, StoreFiles]],
    broker: BrokerInfo,
    stores: Collection[StoreKey],
    settings: ClientSettings,
    never_written: Collection[StoreKey] = (),
) -> dict[StoreKey, StoreFiles]:
    """The files of these stores of one broker; `ask` queries its web port for their topics.

    The broker's answer lacks stores that were never written to, and all stores while it is starting: its web port opens
    before the stores are loaded. The port for clients opens after that. So if stores are missing that are not known as
    `never_written`, this checks that the client port accepts a connection. Raises errors of `ask`, and ConnectError.
    """
    topics = {store.topic for store in stores}
    found = ask(topics)
    if any(store not in found and store not in never_written for store in stores):
        with closing(ConnectionPool(settings)) as fresh:
            fresh.get(broker.address)
        found = ask(topics)
    return {store: found.get(store, NEVER_WRITTEN) for store in stores}
