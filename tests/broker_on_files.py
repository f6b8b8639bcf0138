"""A broker's state machine on real files, for tests that drive it without a server."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path

from embedded_tubemq.broker import Broker, BrokerSettings
from embedded_tubemq.catalogue import Catalogue
from embedded_tubemq.offsets import GroupOffsets
from embedded_tubemq.stores import StoreDirectory

__all__ = ["broker_on_files"]


def broker_on_files(
    folder: Path,
    catalogue: Catalogue,
    number: int = 1,
    *,
    clock: Callable[[], int] = lambda: 0,
    offsets: GroupOffsets | None = None,
    settings: BrokerSettings | None = None,
) -> Broker:
    """A broker with stores in `folder`, whose files are closed once nobody has the broker any more: a run makes
    thousands of them, and a process may open some thousand files.
    """
    stores = StoreDirectory(folder, catalogue, clock)
    broker = Broker(number, catalogue, stores, offsets or GroupOffsets(), settings)
    weakref.finalize(broker, stores.close)
    return broker
