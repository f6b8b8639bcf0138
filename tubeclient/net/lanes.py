"""Flows side by side on one thread: while one waits for an answer, others continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import inf
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from tubeclient.errors import TubeError
from tubeclient.flows.effects import Emit, Flow, Receive, Sleep
from tubeclient.net.runner import FlowRunner, Pending

K = TypeVar("K")

_UNTIL = attrgetter("until")


def _nothing() -> None:
    """What closed lanes call for more."""


class _Lane(Generic[K]):
    """A running flow, and what to give it when it continues."""

    def __init__(self, key: K, flow: Flow[None]) -> None:
        self.key = key
        self.flow = flow
        self.result: Any = None
        self.failure: TubeError | None = None
        self.awaited: Receive | None = None
        self.wait = 0
        """Counts its waits; notices of earlier waits are ignored."""
        self.until = inf
        """When its wait ends at the latest, by time.monotonic(); infinite if it does not wait."""


class Lanes(Generic[K]):
    """Runs flows over `runner` while the caller iterates. Iterating gives (key, value) of whichever flow emits next,
    until all flows have ended. An error of a flow ends the iteration.

    `more` is called before each wait and may add flows. A flow that sleeps on a signal blocks the others. `close`
    closes the flows that have not ended.
    """

    def __init__(self, runner: FlowRunner, more: Callable[[], None]) -> None:
        self._runner = runner
        self._more = more
        self._running: list[_Lane[K]] = []
        self._ready: SimpleQueue[tuple[_Lane[K] | None, int]] = SimpleQueue()

    @property
    def running(self) -> list[K]:
        """The keys of the flows that have not ended, in the order they were added."""
        return [lane.key for lane in self._running]

    def add(self, key: K, flow: Flow[None]) -> None:
        """Start a flow."""
        lane = _Lane(key, flow)
        self._running.append(lane)
        self._ready.put((lane, lane.wait))

    def wake(self) -> None:
        """End the present wait, or the next one, so that `more` is called. Any thread may call it."""
        self._ready.put((None, 0))

    def __iter__(self) -> Iterator[tuple[K, Any]]:
        while True:
            self._more()
            if not self._running:
                return
            lane = self._next()
            if lane is None:
                continue
            if lane.awaited is not None:
                lane.result, lane.failure = self._runner.carry_out(lane.awaited)
                lane.awaited = None
            while True:
                try:
                    effect, lane.result = self._runner.step(lane.flow, lane.result, lane.failure)
                except StopIteration:
                    self._running.remove(lane)
                    break
                except BaseException:
                    self._running.remove(lane)
                    raise
                lane.failure = None
                if isinstance(effect, Emit):
                    yield lane.key, effect.value
                elif isinstance(effect, (Receive, Sleep)):
                    self._await(lane, effect)
                    break
                elif effect is not None:
                    lane.result, lane.failure = self._runner.carry_out(effect)

    def close(self) -> None:
        """Close the flows that have not ended."""
        for lane in self._running:
            self._runner.close(lane.flow)
        self._running.clear()
        self._more = _nothing  # it refers to these lanes, and only the search for garbage would find both

    def _await(self, lane: _Lane[K], effect: Receive | Sleep) -> None:
        lane.wait += 1
        number = lane.wait
        if isinstance(effect, Receive):
            pending: Pending = effect.ticket  # type: ignore[assignment]  # a ticket of this runner's
            lane.awaited, lane.until = effect, pending.deadline
            pending.future.add_done_callback(lambda _: self._ready.put((lane, number)))
        else:
            lane.result, lane.until = False, time.monotonic() + max(0.0, effect.delay_ms / 1000)

    def _next(self) -> _Lane[K] | None:
        """Wait for a lane that can continue; None if the notice was outdated, or for `wake`."""
        first = min(self._running, key=_UNTIL)
        lane: _Lane[K] | None
        seconds = first.until - time.monotonic()
        if seconds <= 0:  # even if the others have work
            lane = first
        else:
            try:
                lane, number = self._ready.get_nowait() if first.until == inf else self._ready.get(timeout=seconds)
            except Empty:
                return None
            if lane is None or lane.wait != number:
                return None
        lane.wait += 1
        lane.until = inf
        return lane
