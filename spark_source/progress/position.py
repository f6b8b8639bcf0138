"""How far a query is, as one value: what the offsets table and the brokers are told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from spark_source.offsets.offsets import Offsets
from spark_source.plan.batch_plan import BatchPlan
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["AheadWarning", "Position"]

_log = logging.getLogger(__name__)


class Position(NamedTuple):
    """Up to where the sink is complete, with what was known then of stores, brokers and nodes."""

    complete: Offsets
    bounds: Mapping[StoreKey, StoreBounds]
    view: ClusterView
    """The brokers that answered."""
    node_of: Mapping[PartitionKey, int]
    """Empty where no offsets table asks for it."""
    as_of: datetime
    """When that was known. The end of the next batch is not known before, whoever hears of it: see
    `offsets_store.Companion`."""
    planned: BatchPlan | None = None
    """The batch that ended there; None where it was planned by an earlier run."""
    back_from: Offsets | None = None
    """Where the query stood before, if it went back: behind a lost tail that was accepted."""


class AheadWarning:
    """Told once, before a query first writes somewhere: others have read on, and the query sets that back."""

    def __init__(self, where: str, read_on: str, reads: Callable[[PartitionKey], bool]) -> None:
        """`read_on` says how the others may have got there; `reads` which partitions are the query's."""
        self._where = where
        self._read_on = read_on
        self._reads = reads
        self._compared = False

    def compare(self, complete: Offsets, kept: Callable[[], Mapping[PartitionKey, int]]) -> None:
        """Warn where what is kept is ahead of `complete`; raises what `kept` raises, and asks again the next time."""
        if self._compared:
            return
        ahead = complete.overtaken_by({key: at for key, at in kept().items() if self._reads(key)})
        self._compared = True
        if ahead:
            _log.warning(
                "%s is ahead of this query's checkpoint in %d partitions, %s among them: the group was read on %s. "
                "This query goes on from its checkpoint, and sets the group back to it",
                self._where,
                len(ahead),
                ahead[0],
                self._read_on,
            )
