"""The client for asyncio: the same flows, settings and errors as the classes of `tubeclient` without `Async`.

No object belongs to an event loop: it may be made outside of one, and used in several, one after the other. Everything
that does not wait (settings, errors, `OutgoingMessage`, `assign`) is in `tubeclient`. For what is not here, such as
`Admin` and `OffsetLookup`, there is `asyncio.to_thread`.
"""

from __future__ import annotations

from tubeclient.aio.consumer import AsyncClientBalanceConsumer, AsyncPullConsumer
from tubeclient.aio.producer import AsyncProducer
from tubeclient.aio.range_reader import AsyncRangeReader

__all__ = ["AsyncClientBalanceConsumer", "AsyncProducer", "AsyncPullConsumer", "AsyncRangeReader"]
