"""What a target is, and how its input is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

__all__ = ["Find", "Input", "Run", "Target", "allowed"]

Run = Callable[[bytes], None]


class Find(Exception):
    """What no input may do, other than an exception that is not declared."""


class Target(NamedTuple):
    """Code that reads foreign bytes. `opened` gives a function that feeds it one input, and raises only for a find."""

    name: str
    opened: Callable[[], AbstractContextManager[Run]]
    seeds: Callable[[], Iterable[bytes]]

    @classmethod
    def of(cls, run: Run, seeds: Callable[[], Iterable[bytes]]) -> Target:
        """A target that needs nothing to be opened; it has the function's name."""
        return cls(run.__name__, lambda: nullcontext(run), seeds)


class Input:
    """Takes numbers and pieces from the start of an input. What is missing is 0, or empty."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self) -> int:
        """0 to 255."""
        return (self.piece(1) or b"\0")[0]

    def piece(self, count: int) -> bytes:
        """At most so many bytes."""
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def rest(self) -> bytes:
        """All that is left."""
        return self.piece(len(self._data))


def allowed(call: Callable[[], object], *errors: type[Exception]) -> None:
    """Make a call that may raise these errors, and no others."""
    try:
        call()
    except errors as error:
        if not str(error):
            raise Find(f"a {type(error).__name__} without a text") from error
