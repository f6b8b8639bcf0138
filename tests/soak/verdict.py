"""Whether each number came once, in the table or among the bad records."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from deltalake import DeltaTable
from numpy.typing import NDArray

from tests.exactly_once.contents import number_in

__all__ = ["Counts", "compare", "counts_of"]


class Counts(NamedTuple):
    """Of all numbers that were sent."""

    missing: int
    doubled: int
    """Places beyond the first of each number."""
    strange: int
    """Numbers that nobody sent."""


def compare(numbers: NDArray[np.int64], sent: int) -> Counts:
    """`numbers` in any order, against 0 to `sent` - 1."""
    known = numbers[(numbers >= 0) & (numbers < sent)]
    different = len(np.unique(known))
    return Counts(sent - different, len(known) - different, len(numbers) - len(known))


def counts_of(table: Path, letters: Path, sent: int) -> Counts:
    """The same for the job's two tables."""
    good = DeltaTable(table).to_pyarrow_table(columns=["number"])["number"].to_numpy()
    bad: list[int] = []
    if DeltaTable.is_deltatable(str(letters)):
        values = DeltaTable(letters).to_pyarrow_table(columns=["value"])["value"]
        bad = [number_in(value.as_py()) for value in values]
    return compare(np.concatenate([good, np.array(bad, dtype=np.int64)]), sent)
