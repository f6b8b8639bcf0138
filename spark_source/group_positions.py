"""Where the group stands before the query begins, from whoever knows it best."""

from __future__ import annotations

from collections.abc import Mapping

from spark_source.cluster import Lookup
from spark_source.options import SourceOptions
from spark_source.progress_table import ProgressTable
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["group_positions"]


def group_positions(
    options: SourceOptions, view: ClusterView, lookup: Lookup, progress: ProgressTable
) -> Mapping[PartitionKey, int]:
    """Return the offsets table's positions, and for topics that it knows nothing of those that the brokers keep.

    A topic is taken from one of the two as a whole: mixed, a partition could be read on from where another client left
    the group. TubeError where brokers have to be asked and do not answer.
    """
    topics = {layout.topic for layout in view.layouts}
    kept = progress.positions(topics)
    known_topics = {key.topic for key in kept}
    if known_topics.issuperset(topics):
        return kept
    told = lookup.group_positions(view, options.consumer_group)
    return {**{key: at for key, at in told.items() if key.topic not in known_topics}, **kept}
