"""Where the group stands before the query begins, from whoever knows it best."""

from __future__ import annotations

from collections.abc import Mapping

from spark_source.cluster.cluster import Lookup
from spark_source.offsets.offset_spec import Bounds, GroupPositions
from spark_source.options.source_options import SourceOptions
from spark_source.progress.progress_table import ProgressTable
from tubeclient.keys import StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["group_positions", "positions_on_brokers"]


def group_positions(
    options: SourceOptions,
    view: ClusterView,
    bounds: Mapping[StoreKey, Bounds],
    lookup: Lookup,
    progress: ProgressTable,
) -> GroupPositions:
    """Return the offsets table's positions, and for topics that it knows nothing of those that the brokers keep.

    A topic is taken from one of the two as a whole: mixed, a partition could be read on from where another client left
    the group. TubeError where brokers have to be asked and do not answer.
    """
    topics = {layout.topic for layout in view.layouts}
    kept, waiting = progress.positions(topics), progress.waiting(topics)
    known_topics = {key.topic for key in (*kept, *waiting)}
    if known_topics.issuperset(topics):
        return GroupPositions(kept, waiting=waiting)
    told, undecided, _ = positions_on_brokers(options, view, bounds, lookup)
    return GroupPositions(
        {**{key: at for key, at in told.items() if key.topic not in known_topics}, **kept},
        undecided - known_topics,
        waiting,
    )


def positions_on_brokers(
    options: SourceOptions, view: ClusterView, bounds: Mapping[StoreKey, Bounds], lookup: Lookup
) -> GroupPositions:
    """Return the positions that those brokers in `view` keep that told of their stores; topics of others are
    undecided."""
    untold = [store for store in view.stores() if store not in bounds]
    asked = view.without({store.broker_id for store in untold})
    return GroupPositions(
        lookup.group_positions(asked, options.consumer_group), frozenset(store.topic for store in untold)
    )
