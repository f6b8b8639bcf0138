"""How fast a figure grows, with its error."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Slope", "slope_of"]

_BLOCKS = 24
"""Samples that follow each other are alike (a heap fills, and is collected), so each counts for less than one. The
means of this many blocks are far enough apart to count as independent."""


class Slope(NamedTuple):
    """Of a straight line through the samples."""

    per_hour: float
    error: float
    """The standard error of `per_hour`."""
    mean: float

    @property
    def grows(self) -> bool:
        """Whether it is above zero by more than three standard errors, and by more than 2 % of the mean an hour."""
        return self.per_hour > max(3 * self.error, 0.02 * self.mean)


def slope_of(seconds: ArrayLike, values: ArrayLike) -> Slope:
    """The least squares line through the means of 24 blocks. At least 24 samples; ValueError for fewer."""
    at, found = np.asarray(seconds, dtype=float) / 3600, np.asarray(values, dtype=float)
    if at.shape != found.shape or len(at) < _BLOCKS:
        raise ValueError(f"a slope needs {_BLOCKS} samples or more, each with its time; not {len(at)}")
    hours = np.array([block.mean() for block in np.array_split(at, _BLOCKS)])
    means = np.array([block.mean() for block in np.array_split(found, _BLOCKS)])
    off = hours - hours.mean()
    spread = float(off @ off)
    per_hour = float(off @ means) / spread
    rest = means - means.mean() - per_hour * off
    error = math.sqrt(float(rest @ rest) / (_BLOCKS - 2) / spread)
    return Slope(per_hour, error, float(means.mean()))
