"""Where a read begins: from the user's places to offsets, with the offsets table and the brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from spark_source.offsets.offset_spec import GroupPositions, OffsetSpec, resolve
from spark_source.offsets.offsets import Offsets
from spark_source.offsets.timestamps import without_times
from spark_source.options.source_options import SourceOptions
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.snapshot import Layout, Snapshot, some_of
from tubeclient.errors import ConfigurationError, ConnectError, NoMessageTime, TubeError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["LateStarts", "OffsetFinder", "beginning", "starts_again"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OffsetFinder:
    """Finds the offsets of places. Methods raise TubeError if a broker must be asked and does not answer."""

    lookup: OffsetLookup
    options: SourceOptions

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
            timeless = without_times(spec, partitions, self.lookup, view, bounds, self.options.message_time_zone)
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
            self.lookup.group_positions(asked, self.options.consumer_group), frozenset(store.topic for store in untold)
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
    if not finder.options.fail_on_data_loss:
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


def starts_again(
    missing: Collection[PartitionKey],
    snapshot: Snapshot,
    finder: OffsetFinder,
    progress: ProgressTable,
) -> Mapping[PartitionKey, int]:
    """Where partitions of a first batch that is run again begin. ConnectError for one whose broker is silent;
    ConfigurationError, unless losses are accepted, for one that the query does not read now."""
    untold = [key for key in missing if key.store not in snapshot.bounds and key in snapshot.configured]
    if untold:
        raise ConnectError(
            f"the first batch is run again, and {some_of(untold)} have no start: their broker does not answer. "
            "Start the query again when it does",
            condition="BROKER_UNREACHABLE",
        )
    spec = finder.options.start_of("stream")
    starts = beginning(spec, snapshot.layout, snapshot.bounds, finder, progress, waits=True)
    left = [key for key in missing if key not in starts]
    if left:
        told = (
            f"the checkpoint's first batch has not completed, and it has {some_of(left)} that the query does not "
            "read now or the cluster does not have. Where they begin is kept nowhere"
        )
        if finder.options.fail_on_data_loss:
            raise ConfigurationError(
                f"{told}. Start the query once with the topics and partitions that it had then, or begin with a "
                "new checkpoint; with failOnDataLoss=false the batch is read without them",
                condition="OTHER_CHECKPOINT",
            )
        _log.warning("failOnDataLoss is false, going on: %s; what the batch has of them is not read", told)
    return {key: starts[key] for key in missing if key in starts}


class LateStarts:
    """Finds the offsets of waiting partitions, from the starting options of the query.

    `latest` is the store's end when its broker first answers here. Others may have written to it since the query began:
    the broker may have been unreachable only from here, or back for a while. Those messages are not read, and a warning
    says how many there may be. For `group` the query asked the offsets table when it began; now only the brokers'
    positions are left.
    """

    def __init__(self, finder: OffsetFinder) -> None:
        self._finder = finder
        self._undecided: tuple[Mapping[PartitionKey, str], frozenset[StoreKey]] | None = None
        """The subject of the last attempt without a result: the brokers need not be asked the same again."""
        self._trouble = False

    def entering(
        self, offsets: Offsets, snapshot: Snapshot, bounds: Mapping[StoreKey, StoreBounds]
    ) -> Mapping[PartitionKey, int]:
        """Return the offsets of those waiting in `offsets` that can be found within `bounds` now. ConfigurationError as
        at the query's start. If a broker goes down meanwhile, this logs a warning and the next call tries again."""
        readable = snapshot.layout.readable
        waiting = {key: at for key, at in offsets.waiting.items() if key.store in bounds and key in readable}
        question = (waiting, frozenset(bounds))
        if not waiting or question == self._undecided:
            return {}
        view = snapshot.layout.view_read
        told = GroupPositions({})

        def on_brokers() -> GroupPositions:
            nonlocal told
            told = self._finder.positions_on_brokers(view, snapshot.bounds)
            return told

        try:
            settled = self._finder.find(OffsetSpec.of_waiting(waiting), waiting.keys(), view, bounds, on_brokers)
        except ConfigurationError:
            raise
        except TubeError as error:
            if not self._trouble:
                _log.warning("cannot find the starting offset of %s yet, trying again: %s", min(waiting), error)
            self._trouble = True
            return {}
        self._trouble = False
        self._undecided = None if settled else question
        if settled:
            _log.info("brokers that were silent when the query began answer now; their partitions enter: %s", settled)
            known_topics = {key.topic for key in told.positions}
            _warn_of_left_out(
                {
                    key: at
                    for key, at in settled.items()
                    if waiting[key] == "latest" or (waiting[key] == "group:latest" and key.topic not in known_topics)
                },
                bounds,
            )
        return settled


def _warn_of_left_out(at_latest: Mapping[PartitionKey, int], bounds: Mapping[StoreKey, StoreBounds]) -> None:
    """Warn of messages that are not read in partitions that enter at their end: nobody knows which of them came after
    the start."""
    for store in sorted({key.store for key in at_latest}):
        low, entered = bounds[store].min_offset, max(at for key, at in at_latest.items() if key.store == store)
        if entered > low:
            _log.warning(
                "%s waited for `latest` since the query began, and enter now, at %d. Messages written in between are "
                "not read. They are between %d and %d, together with older ones, at most %d messages. "
                "To read them, give these offsets to a batch read",
                some_of([key for key in at_latest if key.store == store]),
                entered,
                low,
                entered,
                (entered - low) // INDEX_ENTRY_BYTES,
            )
