"""Counts bad messages for the driver. Spark takes no metrics from a Python source, so the query itself counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["bad_rows", "observed_bad_rows"]

_NAME: Final = "tubeclientBadRows"


def bad_rows() -> Column:
    """The number of rows with a `badReason`, for `DataFrame.observe`; `LagListener` finds it in each batch's progress.

    >>> events = clicks.observe("bad messages", bad_rows())  # doctest: +SKIP
    """
    from pyspark.sql import functions

    return functions.count("badReason").alias(_NAME)


def observed_bad_rows(progress: Mapping[str, Any]) -> int | None:
    """The bad messages of a batch, from the JSON of its progress: the sum of all observed `bad_rows`. None if the query
    observes none.
    """
    observed = progress.get("observedMetrics", {}).values()
    counts = [int(one[_NAME]) for one in observed if one is not None and one.get(_NAME) is not None]
    return sum(counts) if counts else None
