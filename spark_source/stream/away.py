"""Partitions of brokers that are away when a query begins: what is known of them, so that none begins anew later."""

from __future__ import annotations

from collections.abc import Iterable

from spark_source.offsets.offset_spec import OffsetSpec
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.progress.progress_table import ProgressTable
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["away_in_table", "away_of"]


def away_of(options: SourceOptions, partitions: Iterable[PartitionKey], view: ClusterView) -> list[PartitionKey]:
    """Return those of `partitions` that the query reads and whose broker is away; see ClusterView.is_away."""
    reads = options.selector()
    return [key for key in partitions if view.is_away(key) and reads(key)]


def away_in_table(options: SourceOptions, spec: OffsetSpec, view: ClusterView, progress: ProgressTable) -> Offsets:
    """Return where the offsets table has the group in partitions whose broker is away; where `spec` has a place for
    all, with those that wait for one.

    Nothing where a partition that `spec` does not name begins at its first offset: it enters there as new ones do.
    Raises OffsetsTableError.
    """
    if spec.default == "earliest":
        return Offsets({})
    topics = {layout.topic for layout in view.layouts}
    known = progress.positions(topics)
    waiting = progress.waiting(topics) if spec.default is not None else {}
    return Offsets({key: known[key] for key in away_of(options, known, view)}).with_waiting(
        {key: waiting[key] for key in away_of(options, waiting, view)}
    )
