"""Where a read begins: from the user's places to offsets, with the offsets table and the brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from spark_source.offsets.offset_spec import GroupPositions, OffsetSpec, resolve
from spark_source.offsets.offsets import Offsets
from spark_source.offsets.timestamps import without_times
from spark_source.options.start_and_end import PlaceRules
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.snapshot import Layout
from tubeclient.errors import ConfigurationError, NoMessageTime
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["OffsetFinder", "beginning"]


@dataclass(frozen=True)
class OffsetFinder:
    """Finds the offsets of places. Methods raise TubeError if a broker must be asked and does not answer."""

    lookup: OffsetLookup
    rules: PlaceRules

    def find(
        self,
        spec: OffsetSpec,
        partitions: Collection[PartitionKey],
        view: ClusterView,
        bounds: Mapping[StoreKey, StoreBounds],
        group_positions: Callable[[], GroupPositions] = lambda: GroupPositions({}),
    ) -> Offsets:
        """Return the offset of each of `partitions` at the places of `spec`, as `resolve` does, including times."""
        try:
            timeless = without_times(spec, partitions, self.lookup, view, bounds, self.rules.time_zone)
        except NoMessageTime as error:
            offsets_option = "startingOffsets" if spec.option.startswith("starting") else "endingOffsets"
            raise ConfigurationError(
                f"{spec.option} uses the times that producers write on messages, but {error}. Let the producers of "
                f"topic {error.partition.split(':')[1]} set it, or give offsets with {offsets_option} instead"
            ) from error
        return resolve(timeless, partitions, bounds, group_positions)

    def positions_on_brokers(self, view: ClusterView, bounds: Mapping[StoreKey, StoreBounds]) -> GroupPositions:
        """Return the positions on those brokers in `view` that answered; topics of other brokers are undecided."""
        untold = [store for store in view.stores() if store not in bounds]
        asked = view.without({store.broker_id for store in untold})
        return GroupPositions(
            self.lookup.group_positions(asked, self.rules.consumer_group), frozenset(store.topic for store in untold)
        )


def beginning(
    spec: OffsetSpec,
    layout: Layout,
    bounds: Mapping[StoreKey, StoreBounds],
    finder: OffsetFinder,
    progress: ProgressTable,
    *,
    waits: bool,
) -> Offsets:
    """Return where a read of `layout` begins, by the places of `spec`.

    `waits` says whether partitions whose broker is away are read once it is back. Such partitions get a start too, so
    that none begins anew later: if the offsets table has them, or if `failOnDataLoss` is false and `spec` names them.
    Raises ConfigurationError as `resolve` does, OffsetsTableError, and TubeError as the finder does.
    """
    known = _away_in_table(spec, layout, progress) if waits else Offsets({})
    chosen, partitions = spec.with_known(known), {*layout.configured, *known, *known.waiting}
    if not finder.rules.fail_on_data_loss:
        partitions.update(key for key, _ in spec.named if waits and layout.is_away(key))
        chosen = chosen.without_unknown(partitions)
    return finder.find(
        chosen.with_new_from_earliest(partitions),
        partitions,
        layout.view_read,
        bounds,
        lambda: _group_positions(layout.view_read, bounds, finder, progress),
    )


def _away_in_table(spec: OffsetSpec, layout: Layout, progress: ProgressTable) -> Offsets:
    """The offsets table's positions, and waiting partitions, in partitions whose broker is away; only if `spec` has a
    place for all.

    Empty if a partition that `spec` does not name begins at its first offset: it enters there as a new partition does.
    """
    if spec.default == "earliest":
        return Offsets({})
    topics = {shown.topic for shown in layout.view.layouts}
    known = progress.positions(topics)
    waiting = progress.waiting(topics) if spec.default is not None else {}
    return Offsets({key: known[key] for key in known if layout.is_away(key)}).with_waiting(
        {key: waiting[key] for key in waiting if layout.is_away(key)}
    )


def _group_positions(
    view: ClusterView, bounds: Mapping[StoreKey, StoreBounds], finder: OffsetFinder, progress: ProgressTable
) -> GroupPositions:
    """The offsets table's positions; for topics without any, the brokers'.

    All of a topic comes from one source: a mix could continue a partition where another client left the group.
    """
    topics = {layout.topic for layout in view.layouts}
    kept, waiting = progress.positions(topics), progress.waiting(topics)
    known_topics = {key.topic for key in (*kept, *waiting)}
    if known_topics.issuperset(topics):
        return GroupPositions(kept, waiting=waiting)
    told, undecided, _ = finder.positions_on_brokers(view, bounds)
    return GroupPositions(
        {**{key: at for key, at in told.items() if key.topic not in known_topics}, **kept},
        undecided - known_topics,
        waiting,
    )
