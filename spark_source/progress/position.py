"""How far a query is, as one value for the offsets table and the brokers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from spark_source.offsets.offsets import Offsets
from spark_source.plan.batch_plan import BatchPlan
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["Position", "warn_past_ends"]

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
