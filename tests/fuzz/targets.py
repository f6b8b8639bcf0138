"""All targets by name, and the inputs that each begins with."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.decoders import DECODERS
from tests.fuzz.servers import SERVERS
from tests.fuzz.target import Target

__all__ = ["TARGETS", "corpus"]

_FINDS = Path(__file__).parent / "finds"

TARGETS: dict[str, Target] = {target.name: target for target in [*DECODERS, *SERVERS]}


def corpus(name: str) -> list[bytes]:
    """A target's seeds, and what was found in the past."""
    return [*TARGETS[name].seeds(), *(path.read_bytes() for path in sorted((_FINDS / name).glob("*")))]
