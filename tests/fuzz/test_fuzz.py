"""What the fuzzing begins with and what it found goes through all targets, also damaged. `python -m tests.fuzz` looks
for more."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.targets import TARGETS, corpus

_DAMAGED = {name: 20 for name in TARGETS if name.endswith(("_port", "_web"))}
_DAMAGED_USUALLY = 300


def damaged(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Some bytes changed, taken away, added, or taken from another input."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(changed) + 1)
        length = chance.choice((1, 1, 2, 4, 16))
        match chance.randrange(4):
            case 0:
                changed[at : at + length] = chance.randbytes(length)
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = chance.choice((b"\xff", b"\0", b"\x80")) * length
            case _:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                changed[at:at] = other[start : start + 4 * length]
    return bytes(changed)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:aiohttp")  # it passes over headers of parts that it cannot read
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_target(name: str) -> None:
    chance, known = random.Random(name), corpus(name)
    with TARGETS[name].opened() as run:
        for data in known:
            run(data)
        for _ in range(_DAMAGED.get(name, _DAMAGED_USUALLY)):
            run(damaged(chance.choice(known), known, chance))
