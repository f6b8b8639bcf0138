"""Time limits of calls."""

from __future__ import annotations

import math

from tubeclient.errors import ConfigurationError


def given_ms(limit: float, name: str = "timeout_ms") -> float:
    """A call's time limit as its caller gave it; it may be infinite. ConfigurationError if it is no number: a wait for
    NaN would not end, whatever comes."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or math.isnan(limit):
        raise ConfigurationError(f"{name} must be a number of milliseconds, not {limit!r}")
    return limit
