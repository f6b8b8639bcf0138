"""Virtual time, and processes that stand still, die and go on. One real thread: a fiber runs until it waits.

Product code runs unchanged: `stand_ins.py` puts threads, clocks and random numbers of this module in place of Python's.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

__all__ = ["Fiber", "Hub", "Killed", "Process", "TooLong"]

EPOCH_SECONDS = 1_900_000_000.0
"""The wall clock where the virtual time is 0."""


class Killed(BaseException):
    """Raised wherever a process that is dead would go on."""


class TooLong(Exception):
    """The run took more virtual time, or more steps, than any sound run does."""


class Stoppable:
    """What can stand still, as after SIGSTOP, and die; with a network address and a wall clock."""

    def __init__(self, hub: Hub, host: str) -> None:
        self.hub = hub
        self.host = host
        self.dead = False
        self.stopped = False
        self.skew_seconds = 0.0
        """How far its wall clock is ahead."""
        self._missed: list[Callable[[], None]] = []

    def resume(self, action: Callable[[], None]) -> None:
        """Do `action` now, or once it goes on."""
        if self.stopped:
            self._missed.append(action)
        elif not self.dead:
            action()

    def stop(self) -> None:
        """Stand still."""
        self.stopped = True

    def go_on(self) -> None:
        """Continue: what would have come meanwhile comes now."""
        self.stopped = False
        missed, self._missed = self._missed, []
        for action in missed:
            self.hub.at(0.0, lambda action=action: self.resume(action))  # type: ignore[misc]


class Process(Stoppable):
    """One operating system process, of fibers."""

    def __init__(self, hub: Hub, name: str, host: str) -> None:
        super().__init__(hub, host)
        self.name = name
        self.fibers: dict[Fiber, None] = {}
        self.pools: dict[Any, Any] = {}
        """Its shared connection pools, by settings."""
        self.ends: list[Callable[[], None]] = []
        """Called once it is dead: the system closes its sockets."""

    def __repr__(self) -> str:
        return self.name

    def run(self, call: Callable[[], Any], name: str = "main") -> Fiber:
        """Start a fiber."""
        fiber = Fiber(self, call, name)
        if not self.dead:
            self.fibers[fiber] = None
            self.hub.at(0.0, fiber.begin)
        return fiber

    def kill(self) -> None:
        """End at once, as after SIGKILL: nothing that its code still does has an effect."""
        if self.dead:
            return
        self.dead = True
        self.stopped = False
        self._missed.clear()
        for end in self.ends:
            end()
        self.hub.at(0.0, self._clear)

    def _clear(self) -> None:
        for fiber in list(self.fibers):
            fiber.end()
        self.fibers.clear()
        self.pools.clear()


class Fiber:
    """One thread of a process."""

    def __init__(self, process: Process, call: Callable[[], Any], name: str) -> None:
        self.process = process
        self.name = name
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.waiters: list[tuple[Fiber, object]] = []
        """Who waits for its end."""
        self.token: object = None
        self._call = call
        self._greenlet = _Greenlet(self)

    def begin(self) -> None:
        self.process.resume(lambda: self.switch(None))

    def switch(self, value: Any) -> None:
        """Run it until it waits again; by the hub."""
        if not self.done and not self.process.dead:
            self.process.hub.steps += 1
            self._greenlet.switch(value)

    def end(self) -> None:
        """Unwind the stack of a dead process's fiber."""
        if not self.done:
            if self._greenlet:  # it has begun
                self._greenlet.throw(Killed)
            self.finish()

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        self.finish()

    def finish(self) -> None:
        self.done = True
        self.process.fibers.pop(self, None)
        hub = self.process.hub
        for fiber, token in self.waiters:
            hub.wake(fiber, token)
        self.waiters.clear()


class _Greenlet(greenlet):  # type: ignore[misc]  # published without types
    def __init__(self, fiber: Fiber) -> None:
        super().__init__(parent=fiber.process.hub.root)
        self.fiber = fiber

    def run(self, _: Any) -> None:
        self.fiber.run()


class Hub:
    """The agenda of all that will happen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps = 0
        self.root = getcurrent()
        self._agenda: list[tuple[float, float, int, Callable[[], None]]] = []
        self._count = 0

    # For the world around

    def at(self, after_seconds: float, action: Callable[[], None]) -> None:
        """Do `action` then. What is due at the same moment comes in an order by the seed."""
        self._count += 1
        heapq.heappush(self._agenda, (self.now + after_seconds, self.random.random(), self._count, action))

    def run(self, until: Callable[[], bool], limit_seconds: float, limit_steps: int) -> None:
        """Let time pass until the condition holds."""
        while not until():
            if not self._agenda:
                raise TooLong("nothing is left to happen")
            self.now = max(self.now, self._agenda[0][0])
            if self.now > limit_seconds:
                raise TooLong(f"more than {limit_seconds:.0f} s of its own time")
            if self.steps > limit_steps:
                raise TooLong(f"more than {limit_steps} steps")
            heapq.heappop(self._agenda)[3]()

    # For fibers

    @property
    def fiber(self) -> Fiber:
        """The fiber that runs."""
        fiber: Fiber = getcurrent().fiber
        return fiber

    @property
    def process(self) -> Process:
        """The process of the fiber that runs."""
        return self.fiber.process

    @property
    def in_fiber(self) -> bool:
        return isinstance(getcurrent(), _Greenlet)

    def check(self) -> None:
        """Raise Killed in a dead process: what it would do next has no effect."""
        if self.fiber.process.dead:
            raise Killed

    def expect(self) -> object:
        """What `wake` needs to end the next wait of this fiber."""
        self.check()
        token = self.fiber.token = object()
        return token

    def wait(self, token: object, seconds: float | None) -> bool:
        """Wait for `wake` of this token; False after so many seconds."""
        self.check()
        fiber = self.fiber
        if seconds is not None:
            self.at(max(0.0, seconds), lambda: fiber.process.resume(lambda: self._go_on(fiber, token, False)))
        told = self.root.switch()
        fiber.token = None
        self.check()
        return bool(told)

    def sleep(self, seconds: float) -> None:
        self.wait(self.expect(), seconds)

    def pass_by(self) -> None:
        """Stand still here if the process was stopped, and end if it is dead."""
        self.check()
        if self.process.stopped:
            self.sleep(0.0)

    def wake(self, fiber: Fiber, token: object) -> None:
        self.at(0.0, lambda: fiber.process.resume(lambda: self._go_on(fiber, token, True)))

    def join(self, fiber: Fiber, seconds: float | None = None) -> bool:
        """Wait for a fiber's end; False after so many seconds."""
        if fiber.done:
            return True
        token = self.expect()
        fiber.waiters.append((self.fiber, token))
        return self.wait(token, seconds) or fiber.done

    def _go_on(self, fiber: Fiber, token: object, told: bool) -> None:
        if fiber.token is token:
            fiber.token = None
            fiber.switch(told)
