"""Shared parts of the fuzzing tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from tests.examples import examples

T = TypeVar("T")

FUZZ = settings(deadline=None, max_examples=examples(300))
"""No deadline per example: a shared machine stalls now and then, and the whole test has its time limit anyway."""


def chunks_of(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """Every way to cut `data` into pieces, empty ones included."""
    cuts = st.lists(st.integers(0, len(data)), max_size=12).map(sorted)
    return cuts.map(lambda ends: [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)])


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were right once: some of them changed, removed or added."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        action = draw(st.sampled_from(["set", "cut", "insert", "end"]))
        if action == "insert":
            data[at:at] = draw(st.binary(max_size=5))
        elif action == "end":
            del data[at:]
        elif action == "cut":
            del data[at : at + draw(st.integers(1, 5))]
        elif at < len(data):
            data[at] = draw(st.integers(0, 255))
    return bytes(data)


def outcome(call: Callable[[], T], *allowed: type[Exception]) -> T | type[Exception]:
    """The call's value, or the class of an allowed exception; any other exception goes through and fails the test."""
    try:
        return call()
    except allowed as error:
        return type(error)
