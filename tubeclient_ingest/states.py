"""The states of bad records, which follow from the target's history. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tubeclient_ingest.history import SinkState

__all__ = ["BAD", "RETRIED", "STATES", "UNDONE", "committed", "literal"]

BAD: Final = "bad"
"""State of a record that the target does not have."""
RETRIED: Final = "retried"
"""State of a record that could be parsed later: the target has it."""
UNDONE: Final = "undone"
"""State of a row whose commit the target does not have: RESTORE took it out, or the run died or lost before it. The job
reads the record again, or has."""
STATES: Final = (BAD, RETRIED, UNDONE)


def committed(state: SinkState, column: Callable[[str], str]) -> str:
    """SQL for rows of a group and a target: whether the target, which says `state` of the group, has their commit.
    `column` quotes a name.

    What the history no longer has is there, unless later commits say that RESTORE took it out: each start removes what
    no commit stands for.
    """
    sequence, run = column("sequence"), column("runId")
    record = state.record
    known_from = record.known_from if record is not None else state.sequence + 1 if not state.is_whole else 1
    held = record.held if record is not None else ()
    within = " OR ".join(f"{sequence} BETWEEN {first} AND {last}" for first, last in held)
    runs: list[tuple[int, int, str]] = []
    for number in sorted(state.run_of):
        if runs and runs[-1][1] == number - 1 and runs[-1][2] == state.run_of[number]:
            runs[-1] = (runs[-1][0], number, runs[-1][2])
        else:
            runs.append((number, number, state.run_of[number]))
    others = " OR ".join(
        f"({sequence} BETWEEN {first} AND {last} AND {run} <> {literal(of)})" for first, last, of in runs
    )
    return (
        f"({sequence} <= {state.sequence} AND ({sequence} < {known_from} OR {within or 'false'})"
        f" AND NOT ({others or 'false'}))"
    )


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
