"""How far a query is, as one value for the offsets table and the brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from spark_source.offsets.offsets import Offsets
from spark_source.plan.batch_plan import BatchPlan
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["AheadWarning", "Position", "warn_past_ends"]

_log = logging.getLogger(__name__)


class Position(NamedTuple):
    """Up to where the sink is complete, with the stores, brokers and nodes of that time."""

    complete: Offsets
    bounds: Mapping[StoreKey, StoreBounds]
    view: ClusterView
    """The brokers that answered."""
    node_of: Mapping[PartitionKey, int]
    """Empty without an offsets table."""
    as_of: datetime
    """When this became known."""
    planned: BatchPlan | None = None
    """The batch that ended there; None if an earlier run planned it."""
    back_from: Offsets | None = None
    """The query's position before it went back, because a lost tail was accepted."""
    begins: bool = False
    """Whether the query begins there: nothing is complete yet."""


class AheadWarning:
    """Warns once, before a query's first write to a store: the group was read further elsewhere, and the query sets it
    back."""

    def __init__(self, where: str, read_on: str, reads: Callable[[PartitionKey], bool]) -> None:
        """`read_on` says how that may have happened; `reads` tells which partitions are the query's."""
        self._where = where
        self._read_on = read_on
        self._reads = reads
        self._compared = False

    def compare_again(self) -> None:
        """The last comparison lacked some of the stored positions."""
        self._compared = False

    def compare(self, complete: Offsets, kept: Callable[[], Mapping[PartitionKey, int]]) -> None:
        """Warn if the stored positions are ahead of `complete`. Raises errors of `kept`; the next call then tries
        again."""
        if self._compared:
            return
        ahead = complete.overtaken_by({key: at for key, at in kept().items() if self._reads(key)})
        self._compared = True
        if ahead:
            _log.warning(
                "%s is ahead of this query's own offsets in %d partitions, such as %s: the group was read further %s. "
                "This query continues from its own, and sets the group back to them",
                self._where,
                len(ahead),
                ahead[0],
                self._read_on,
            )


def warn_past_ends(where: str, set_back: Sequence[PartitionKey]) -> None:
    """Warn of positions that went back at a query's start, if there are any."""
    if set_back:
        _log.warning(
            "%s was past the end of the brokers' data in %d partitions, such as %s: a topic was created again, or a "
            "broker lost its newest messages. The group is set back to where this query begins",
            where,
            len(set_back),
            set_back[0],
        )
