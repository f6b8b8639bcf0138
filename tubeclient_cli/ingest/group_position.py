"""The offsets table as the ingest job uses it: read before the first batch, brought up to the sink after the last."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.settings import IngestSettings

if TYPE_CHECKING:
    from offsets_store import OffsetsTable

__all__ = ["bring_up_to_date", "kept_positions"]

_log = logging.getLogger(__name__)


def kept_positions(settings: IngestSettings) -> Offsets:
    """Where the offsets table has the group, in the job's topics, and who waits there. Raises OffsetsTableError."""
    table = _table(settings)
    if table is None:
        return Offsets({})
    group, topics = settings.consumer_group, settings.topics
    return Offsets(table.positions(group, topics)).with_waiting(table.waiting(group, topics))


def bring_up_to_date(settings: IngestSettings, ends: Mapping[PartitionKey, int], as_of: datetime) -> None:
    """Record where the sink ended at `as_of` (UTC): the planner has not heard of a query's last batch, as Spark
    tells it with the next.

    Call it when the query has ended. It takes nothing over: a newer run of the group, which may be at work by then,
    goes on as if it had written itself, and what it has written since stays. A table that cannot be written is a
    warning; it trails by a batch then.
    """
    table = _table(settings)
    if table is None:
        return
    from offsets_store import GroupKey, OffsetsTableError, moved_to

    complete = {partition: at for partition, at in ends.items() if partition.topic in settings.topics}
    key = GroupKey(settings.consumer_group, settings.topics)
    try:
        kept = table.latest(key)
        source_count = kept.source_count if kept is not None else settings.source_count
        if not complete or source_count is None:
            return
        table.join_run(key, source_count).record(moved_to(kept, complete), as_of)
    except OffsetsTableError as error:
        _log.warning("the offsets table was not written, it trails the target by a batch: %s", error)


def _table(settings: IngestSettings) -> OffsetsTable | None:
    if settings.offsets_table is None:
        return None
    from offsets_store import OffsetsTable

    return OffsetsTable(settings.offsets_table, dict(settings.storage_options))
