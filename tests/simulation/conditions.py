"""What a seed's run is made of, besides its faults."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Conditions", "JobSettings"]

STRATEGIES = ("modulo", "hash_modulo", "averagely", "consistent_hash", "sticky", "backlog")


@dataclass(frozen=True)
class Conditions:
    """Drawn once. Chances are for each request, attempt or call."""

    brokers: int
    topics: tuple[str, ...]
    shapes: dict[str, tuple[int, int]] = field(repr=False)
    """Stores, and partitions of each store, by topic."""
    breaks: float
    """A connection breaks at a request."""
    slow: float
    """A request or an answer takes seconds."""
    attempt_dies: float
    speculates: float
    planner_dies: float
    bad_share: float
    """Records that cannot be parsed."""
    bad_records: bool
    """Whether the job has a dead-letter table."""
    dies: bool
    """Whether drivers die between two calls, besides faults by time."""
    offsets_table: bool
    to_brokers: bool
    """commitOffsetsToBroker"""
    interval_ms: int | None
    """None: Trigger.AvailableNow"""
    ingests: bool
    """Whether the job is `ingest`; otherwise a query of the user's own, into a sink that writes each batch number
    once."""
    streams: int = 0
    """Of an InLong group whose job it is; 0 for a job of one table."""
    tasks_write: bool = False
    """Whether tasks write the target's files."""
    leaves_out: int | None = None
    """Whether some runs leave out a stream, and what decides which."""
    is_iceberg: bool = False
    """Whether a commit to a table is refused if it changed at all since the look before, as Iceberg's are."""

    @classmethod
    def drawn(cls, rng: random.Random) -> Conditions:
        bad_share = rng.choice((0.0, 0.0, 0.1))
        ingests = rng.random() < 0.8
        return cls(
            brokers=rng.choice((1, 2, 2, 3)),
            topics=("t",) if rng.random() < 0.6 else ("t", "u"),
            shapes={topic: (rng.choice((1, 1, 2)), rng.choice((1, 2, 3))) for topic in ("t", "u")},
            breaks=rng.choice((0.0, 0.0, 0.003, 0.02)),
            slow=rng.choice((0.0, 0.0, 0.003, 0.02)),
            attempt_dies=rng.choice((0.0, 0.0, 0.1, 0.3)),
            speculates=rng.choice((0.0, 0.0, 0.2)),
            planner_dies=rng.choice((0.0, 0.0, 0.01)),
            bad_share=bad_share if ingests else 0.0,
            bad_records=ingests and (bad_share > 0 or rng.random() < 0.2),
            dies=rng.choice((False, True, True)),
            offsets_table=rng.random() < 0.85,
            to_brokers=rng.random() < 0.3,
            interval_ms=rng.choice((None, None, 0, 500, 3000)),
            ingests=ingests,
        )


@dataclass(frozen=True)
class JobSettings:
    """What a user may change between two runs."""

    source_count: int
    max_offsets_per_trigger: int | None
    options: dict[str, str]

    @classmethod
    def drawn(cls, rng: random.Random, conditions: Conditions) -> JobSettings:
        options = {"assignmentStrategy": rng.choice(STRATEGIES), "retryLimit": rng.choice(("10s", "60s"))}
        takes_over, *_ = (rng.random() for _ in range(4))  # four: defences.py has seeds of these
        if takes_over < 0.4:
            options |= {"backlogTakeover": "true", "backlogTakeoverMinRows": "2"}
        if conditions.to_brokers:
            options |= {"commitOffsetsToBroker": "true"}
        return cls(rng.choice((1, 2, 2, 3)), rng.choice((None, 3, 10, 40)), options)

    def source_options(self, masters: str, group: str, topics: tuple[str, ...], *, table: bool) -> dict[str, Any]:
        """The options of format("tubeclient") for a query of the user's own."""
        options: dict[str, Any] = {
            **self.options,
            "masterServers": masters,
            "consumerGroup": group,
            "subscribe": ",".join(topics),
            "startingOffsets": "earliest",
            "sourceCount": str(self.source_count),
        }
        if self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        if table:
            options["offsetsTable"] = "./offsets"
        return options
