"""What all sides of the writing measurements send, and what is noted of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["ATTRIBUTES", "IN_FLIGHT", "TAG", "TIME", "WriteError", "Written", "bodies"]

TAG: Final = "clicks"
TIME: Final = "202601021530"
ATTRIBUTES: Final = {"source": "web"}
"""Java's loop is made for one."""
IN_FLIGHT: Final = 1_000
"""The default of our Producer; Java's gets as many."""


class WriteError(RuntimeError):
    """A side did not write what it was told to."""


class Written(NamedTuple):
    """One side's sending, until the last answer."""

    messages: int
    acknowledged: int
    seconds: float
    cpu_seconds: float
    """Of all threads of the side's process meanwhile."""

    @property
    def rate(self) -> float:
        """Acknowledged messages a second."""
        return self.acknowledged / self.seconds


def bodies(count: int, body_bytes: int) -> Iterator[bytes]:
    """So many different ones."""
    return (b"%0*d" % (body_bytes, number) for number in range(count))
