"""The states of the dead-letter table's rows, and which one is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column

    from tubeclient_cli.ingest.sink_history import SinkState

__all__ = ["BAD", "RETRIED", "UNDONE", "Judgement", "judgement"]

BAD: Final = "bad"
"""State of a record that the target does not have."""
UNDONE: Final = "undone"
"""State of a record whose batch RESTORE took out of the target: the job reads it again, or has."""
RETRIED: Final = "retried"
"""State of a record that could be parsed later: the target has it."""


class Judgement(NamedTuple):
    """What is right for a row with the columns `sequence` and `retries`."""

    is_known: Column
    """Whether the target tells what its state is."""
    state: Column
    """Which one, if so."""


def judgement(target: SinkState) -> Judgement | None:
    """The judgement of rows of the group by `target`; None if it tells of none.

    A row's batch or retry that is past `target` is another run's, and that run judges the row. Of a batch that the
    history no longer tells of, a later retry says that it was in the target: it took the row as bad.
    """
    from pyspark.sql import functions as F

    record = target.record
    if record is None and not target.is_whole:
        return None
    held, known_from = (record.held, record.known_from) if record is not None else ((), 1)
    sequence, retries = F.col("sequence"), F.col("retries")

    def has(number: Column) -> Column:
        found = F.lit(False)
        for first, last in held:
            found = found | number.between(first, last)
        return found

    is_known = (
        ((sequence >= known_from) | F.exists(retries, lambda retry: retry >= known_from))
        & (sequence <= target.sequence)
        & ~F.exists(retries, lambda retry: retry > target.sequence)
    )
    is_undone = (sequence >= known_from) & ~has(sequence)
    state = F.when(is_undone, UNDONE).when(F.exists(retries, has), RETRIED).otherwise(BAD)
    return Judgement(is_known, state)
