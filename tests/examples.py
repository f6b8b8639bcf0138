"""How many examples Hypothesis generates, where a test wants another number than the profile's."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]


def examples(full: int) -> int:
    """As many in `make test-all`, and a fifth in the profile `fast`: what a test says itself, no profile changes."""
    return max(1, full * settings().max_examples // 100)
