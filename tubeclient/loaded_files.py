"""What a broker's web port says of its stores, once it has loaded them."""

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
    """The files of these stores of one broker, from what `ask` is told by its web port of their topics.

    The broker's answer leaves out stores that were never written to, and all stores while it is starting: its web port
    is there before they are. The port for clients opens behind them, so where stores are missing other than those that
    are known as `never_written`, one has to be able to connect there. Raises what `ask` raises, and ConnectError.
    """
    topics = {store.topic for store in stores}
    found = ask(topics)
    if any(store not in found and store not in never_written for store in stores):
        with closing(ConnectionPool(settings)) as fresh:
            fresh.get(broker.address)
        found = ask(topics)
    return {store: found.get(store, NEVER_WRITTEN) for store in stores}
