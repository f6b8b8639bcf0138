"""A batch read's ranges, narrowed to what can match the filters that Spark pushed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from spark_source.cluster.cluster import Lookup
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.pushed import Pushed
from tubeclient.errors import CorruptMessage, NoMessageTime
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["narrowed"]

_MINUTE_MS = 60_000
_MINUTE_US = 60_000_000

_log = logging.getLogger(__name__)


def narrowed(
    start: Offsets,
    end: Offsets,
    pushed: Pushed,
    known: Collection[StoreKey],
    options: SourceOptions,
    lookup: Lookup,
    view: ClusterView,
    bounds: Mapping[StoreKey, StoreBounds],
) -> tuple[Offsets, Offsets]:
    """Return start and end of the same partitions, without what cannot match `pushed`; `known` are the stores whose
    messages' offsets are known. Raises TubeError if a broker must be asked for a time and does not answer."""
    kept = [key for key in start if pushed.keeps(key)]
    low: dict[PartitionKey, int] = {key: start[key] for key in kept}
    high: dict[PartitionKey, int] = {key: end[key] for key in kept}
    offsets = pushed.offsets
    for key in kept:
        # Where messages may lack, they take the offsets of all their pack along, and a pack begins where a range does.
        if key.store in known and options.fail_on_data_loss:
            if offsets.low is not None:
                low[key] = max(low[key], -(-offsets.low // INDEX_ENTRY_BYTES) * INDEX_ENTRY_BYTES)
            if offsets.high is not None:
                high[key] = min(high[key], offsets.high // INDEX_ENTRY_BYTES * INDEX_ENTRY_BYTES + INDEX_ENTRY_BYTES)

    disorder_us = None if options.message_time_disorder_ms is None else options.message_time_disorder_ms * 1_000
    not_empty = [key for key in kept if low[key] < high[key]]
    if disorder_us is not None and not pushed.times_us.is_all and not_empty:
        first, last = pushed.times_us.low, pushed.times_us.high
        # The message before the first place is older than this, and before that one none is newer by the disorder.
        # Rounded down, as in zones of local mean time a message's minute begins at some other second.
        first_ms = None if first is None else (first - disorder_us) // _MINUTE_US * _MINUTE_MS
        end_ms = None if last is None else ((last + disorder_us) // _MINUTE_US + 1) * _MINUTE_MS

        def times(at_ms: int) -> Mapping[PartitionKey, int | None]:
            wanted = dict.fromkeys(not_empty, at_ms)
            return lookup.offsets_at(view, wanted, time_zone=options.message_time_zone, bounds=bounds)

        try:
            if first_ms is not None:
                for key, begin in times(first_ms).items():
                    low[key] = high[key] if begin is None else max(low[key], begin)
            if end_ms is not None:
                for key, behind in times(end_ms).items():
                    high[key] = high[key] if behind is None else min(high[key], behind)
        except (NoMessageTime, CorruptMessage) as error:
            # It may be outside of what is read, and then ends no read.
            _log.info("a filter on messageTime does not narrow what is read: %s", error)
    # A partition with nothing to read stays: a store's partitions decide whether offsets are known.
    begins = {key: min(low[key], end[key]) if key in low else start[key] for key in start}
    ends = {key: max(high[key], begins[key]) if key in high else start[key] for key in start}
    _log.info(
        "filters leave %d of %d partitions, and at most %d of %d messages",
        sum(ends[key] > begins[key] for key in start),
        len(begins),
        sum(ends[key] - begins[key] for key in start) // INDEX_ENTRY_BYTES,
        sum(end[key] - start[key] for key in start) // INDEX_ENTRY_BYTES,
    )
    return Offsets(begins), Offsets(ends)
