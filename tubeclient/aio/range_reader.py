"""Exact ranges for asyncio: a RangeReader for each read, whose packs are fetched on threads."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial

from tubeclient.aio.running import Threads
from tubeclient.errors import ClientClosed
from tubeclient.flows.message_pack import BadMessages
from tubeclient.keys import BrokerInfo, OffsetRange
from tubeclient.net.fork import ProcessBound
from tubeclient.range_reader import LostRange, Pack, RangeReader, WantedRange
from tubeclient.settings import ClientSettings


class AsyncRangeReader(ProcessBound):
    """`RangeReader` for asyncio, with the same arguments and guarantees. Several tasks may read at once, up to 64, as
    several RangeReaders would.

    A read that is cancelled, or whose loop is left, gives its partitions back in the background. `contextlib.aclosing`
    around a read does so at once when a loop is left. What was skipped by all reads is in `losses`.

    >>> async with AsyncRangeReader(settings, reader_groups_of("clicks_etl")) as reader:  # doctest: +SKIP
    ...     async for pack in reader.read(broker, OffsetRange(PartitionKey(1, "clicks", 0), 0, 2800)):
    ...         print(len(pack))
    """

    def __init__(
        self,
        settings: ClientSettings,
        reader_groups: tuple[str, ...],
        client_name: str = "range",
        *,
        fail_on_data_loss: bool = True,
        bad_messages: BadMessages = "fail",
        visit_token: int | None = None,
        store_sizes: Mapping[tuple[int, str], int] | None = None,
    ) -> None:
        super().__init__()
        self.losses: list[LostRange] = []
        self._new_reader = partial(
            RangeReader,
            settings,
            reader_groups,
            client_name,
            fail_on_data_loss=fail_on_data_loss,
            bad_messages=bad_messages,
            visit_token=visit_token,
            store_sizes=store_sizes,
        )
        self._new_reader()  # checks the arguments
        self._threads = Threads(self)
        self._reads: set[_Read] = set()
        self._closed = False

    async def read(
        self, broker: BrokerInfo, offset_range: OffsetRange, filters: frozenset[str] = frozenset()
    ) -> AsyncGenerator[Pack, None]:
        """Yield the range's packs, in order and without gaps; raises as RangeReader.read."""
        async with aclosing(self.read_all([WantedRange(broker, offset_range, filters)])) as found:
            async for _, pack in found:
                if pack is not None:
                    yield pack

    async def read_all(self, wanted: Sequence[WantedRange]) -> AsyncGenerator[tuple[int, Pack | None], None]:
        """Yield (number, pack) of all these ranges, and (number, None) at the end of each; see RangeReader.read_all."""
        if self._closed:
            raise ClientClosed("this AsyncRangeReader is closed; make a new one")
        reader = self._new_reader()
        reader.losses = self.losses
        read = _Read(reader, wanted)
        self._reads.add(read)
        try:
            while (step := await self._threads.run(read.step)) is not None:
                yield step
        finally:
            reader.close()
            with suppress(ClientClosed):  # `aclose` has ended it
                self._threads.begin(read.end)
            self._reads.discard(read)

    async def aclose(self) -> None:
        """End all reads with ClientClosed, and all threads. Goes on in the background if it is cancelled."""
        self._closed = True
        await self._threads.close(self._stop)

    def _stop(self) -> None:
        for read in list(self._reads):
            read.end()

    async def __aenter__(self) -> AsyncRangeReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Read:
    """A read. Its methods wait, and any threads may call them."""

    def __init__(self, reader: RangeReader, wanted: Sequence[WantedRange]) -> None:
        self._reader = reader
        self._steps = reader.read_all(wanted)
        self._lock = threading.Lock()

    def step(self) -> tuple[int, Pack | None] | None:
        """The next step, None at the end."""
        with self._lock:
            return next(self._steps, None)

    def end(self) -> None:
        """Give the partitions back. A step that waits raises ClientClosed. May be called again."""
        self._reader.close()
        with self._lock:
            self._steps.close()
