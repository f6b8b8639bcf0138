"""Whether a group is well, judged from its last commits and from what it has not read; pure, no I/O.

past = table.past("clicks_etl")
found = GroupHealth.of(judge(one, seen, unread_in(bounds[one.store], seen[-1].next_offset), now)
                       for one, seen in past.positions.items())
found.verdict  # Verdict.OK
"""

from __future__ import annotations

from offsets_store.health.judgement import (
    MIN_SILENCE,
    WINDOW,
    GroupHealth,
    PartitionHealth,
    PastPosition,
    Unread,
    Verdict,
    judge,
    unread_in,
)
from offsets_store.health.past import GroupPast, past_of

__all__ = [
    "MIN_SILENCE",
    "WINDOW",
    "GroupHealth",
    "GroupPast",
    "PartitionHealth",
    "PastPosition",
    "Unread",
    "Verdict",
    "judge",
    "past_of",
    "unread_in",
]
