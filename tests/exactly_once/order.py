"""The order in which sink and offsets table get a batch or a round, and a check of observations. Pure.

A batch is in the sink, then in the offsets table, then the next one is planned. So a reader that first reads where the
batch ended before the newest known one, the table second and the sink last sees three rising positions, at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Positions", "Seen", "wrong_order"]

Positions = Mapping[str, int]
"""Index offsets by partition key."""


@dataclass(frozen=True)
class Seen:
    """What was read, in this order; {} for what does not exist yet."""

    due: Positions
    """Where the last batch but one ended, of those that are known: planned by Spark, or in the sink."""
    table: Positions
    """The offsets table's positions."""
    sink: Positions
    """Where the rows in the sink end."""
    began: Positions = field(default_factory=dict)
    """Where the query began, as the offsets table keeps it until a batch with rows is complete."""


def wrong_order(seen: Seen, *, at_rest: bool = False) -> list[str]:
    """Say what is wrong: a table that leads the sink or trails by more than a batch; `at_rest`, after an end that the
    job came to by itself, one that trails at all. [] if nothing is.
    """
    wrong = [
        f"{key}: the table leads, at {at}, and the sink ends at {seen.sink.get(key)}"
        for key, at in sorted(seen.table.items())
        if at > seen.sink.get(key, -1)
    ]
    # A first batch without rows is nothing that the table has to hear of.
    due = {} if seen.due == seen.began else seen.due
    wrong += [
        f"{key}: the table trails by more than a batch, at {seen.table.get(key)}; the last batch but one ended at {at}"
        for key, at in sorted(due.items())
        if seen.table.get(key, -1) < at
    ]
    if at_rest:
        wrong += [
            f"{key}: the table trails at the end, at {seen.table.get(key)}, and the sink ends at {at}"
            for key, at in sorted(seen.sink.items())
            if seen.table.get(key, -1) < at
        ]
    return wrong
