"""The ingest job's use of the offsets table: read before the first batch, brought up to the sink after the last."""

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
    """The group's positions and waiting partitions in the offsets table, in the job's topics. Raises
    OffsetsTableError."""
    table = _table(settings)
    if table is None:
        return Offsets({})
    group, topics = settings.consumer_group, settings.topics
    return Offsets(table.positions(group, topics)).with_waiting(table.waiting(group, topics))


def bring_up_to_date(settings: IngestSettings, ends: Mapping[PartitionKey, int], as_of: datetime) -> None:
    """Record where the sink ended at `as_of` (UTC). The planner does not know that a query's last batch is complete:
    Spark tells it with the next batch.

    Call it when the query has ended. It takes nothing over: a newer run of the group may be active, and what that run
    has written since stays. If the table cannot be written, this logs a warning; the table is then one batch behind.
    """
    table = _table(settings)
    if table is None:
        return
    from offsets_store import GroupKey, OffsetsTableError, moved_to

    complete = {partition: at for partition, at in ends.items() if partition.topic in settings.topics}
    key = GroupKey(settings.consumer_group, settings.topics)
    try:
        kept = table.latest(key)
        # Of a run that was stopped after its first batch, there is only where it began.
        told = kept or table.begun(settings.consumer_group)
        source_count = told.source_count if told is not None and told.group == key else settings.source_count
        if not complete or source_count is None:
            return
        table.join_run(key, source_count).record(moved_to(kept, complete), as_of)
    except OffsetsTableError as error:
        _log.warning("the offsets table was not written; it is one batch behind the target: %s", error)


def _table(settings: IngestSettings) -> OffsetsTable | None:
    if settings.offsets_table is None:
        return None
    from offsets_store import OffsetsTable

    return OffsetsTable(settings.offsets_table, dict(settings.storage_options))
