"""Runs flows in tasks, and blocking calls in threads that tasks wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast

from tubeclient.errors import ClientClosed, TubeError
from tubeclient.flows.effects import Emit, Flow, Receive, Send, SendAll, Sleep
from tubeclient.net.fork import ProcessBound
from tubeclient.net.runner import FlowRunner, Pending
from tubeclient.net.waiting import Bell

_AT_ONCE = 64
"""How many calls of one client may wait in threads at once. Threads are started when there is no idle one."""

T = TypeVar("T")


class Wake:
    """Wakes the task that made it. Any thread may call it, at any time and several times, also once the loop is
    closed."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._called: asyncio.Future[bool] = self._loop.create_future()

    def __call__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, True)

    async def wait(self, seconds: float | None = None) -> bool:
        """Whether it was called, before or during a wait of up to `seconds`."""
        timer = None if seconds is None else self._loop.call_later(max(0.0, seconds), self._settle, False)
        try:
            return await self._called
        finally:
            if timer is not None:
                timer.cancel()

    def _settle(self, called: bool) -> None:
        if not self._called.done():
            self._called.set_result(called)


async def finished(future: Future[Any], seconds: float | None = None) -> bool:
    """Wait up to `seconds` for a future of a thread; whether it is done. A cancelled task leaves it as it is."""
    if future.done():
        return True
    wake = Wake()
    future.add_done_callback(wake)
    return await wake.wait(seconds)


class Threads:
    """The threads for the calls of `client` that may wait: those that connect, write, join or leave a group."""

    def __init__(self, client: ProcessBound) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(_AT_ONCE, "tubeclient-aio")

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Run `call` on a thread. ClientClosed after `close`."""
        self._client.check_process()
        try:
            return self._pool.submit(call)
        except RuntimeError as error:
            raise ClientClosed(f"this client is closed, or has no thread: {error}") from error

    async def run(self, call: Callable[[], T]) -> T:
        """The result of `call`. If the task is cancelled, the call goes on to its end unheard."""
        work = self.begin(call)
        await finished(work)
        try:
            return work.result(0)
        finally:
            del work  # its error refers to this frame

    async def close(self, call: Callable[[], object]) -> None:
        """As `end`, but waits for it, and raises the error of `call`. Goes on if the task is cancelled."""
        if self._client.inherited:
            return
        thread, over = self.end(call)
        await finished(over)
        thread.join()  # it has nothing left to do
        try:
            over.result(0)
        finally:
            del over  # its error refers to this frame

    def end(self, call: Callable[[], object]) -> tuple[threading.Thread, Future[None]]:
        """Run `call`, which ends the client, on a thread of its own, and end all threads then."""
        over: Future[None] = Future()
        thread = threading.Thread(target=self._end, args=(call, over), name="tubeclient-aio-close")
        thread.start()
        return thread, over

    def _end(self, call: Callable[[], object], over: Future[None]) -> None:
        try:
            call()
        except BaseException as error:
            self._pool.shutdown()
            over.set_exception(error)
        else:
            self._pool.shutdown()
            over.set_result(None)


async def run_flow(runner: FlowRunner, threads: Threads, flow: Flow[T], on_event: Callable[[Any], None]) -> T:
    """Run a flow to its end, as `FlowRunner.run` does. Its steps run on the loop, since they do not wait, and what it
    sends is sent on a thread.

    A cancelled task closes the flow where it waits, as an interrupted caller of the sync client does. If a thread is
    sending a request for it, the flow is closed after that: no later request may overtake it.
    """
    result: Any = None
    failure: TubeError | None = None
    sending: Future[tuple[Any, TubeError | None]] | None = None
    try:
        while True:
            try:
                effect, wake = runner.advance(flow, result, failure, _expect)
            except StopIteration as stop:
                value: T = stop.value
                return value
            result, failure = None, None
            if isinstance(effect, Emit):
                on_event(effect.value)
            elif isinstance(effect, Send | SendAll):
                sending = threads.begin(partial(runner.carry_out, effect))
                await finished(sending)
                result, failure = sending.result(0)
                sending = None
            elif isinstance(effect, Sleep):
                result = await (wake or Wake()).wait(effect.delay_ms / 1000)
            elif isinstance(effect, Receive):
                pending = cast(Pending, effect.ticket)
                await finished(pending.future, pending.deadline - monotonic())
                result, failure = runner.carry_out(effect)
            else:
                raise TypeError(f"a flow asked for {effect!r}")
    finally:
        if sending is None:
            runner.close(flow)
        else:
            sending.add_done_callback(lambda _: runner.close(flow))


def _expect(bell: Bell) -> Wake:
    wake = Wake()
    bell.tell(wake)
    return wake
