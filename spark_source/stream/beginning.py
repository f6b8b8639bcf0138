"""Where a read begins: from the user's places to offsets, with the offsets table and the brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from spark_source.offsets.offset_spec import OffsetSpec, resolve, without_times
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.snapshot import Layout, Snapshot, some_of
from tubeclient.errors import ConfigurationError, ConnectError, NoMessageTime
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OffsetFinder:
    """Finds the offsets of places. Methods raise TubeError if a broker must be asked and does not answer."""

    lookup: OffsetLookup
    options: SourceOptions
    progress: ProgressTable

    def find(
        self,
        spec: OffsetSpec,
        partitions: Collection[PartitionKey],
        view: ClusterView,
        bounds: Mapping[StoreKey, StoreBounds],
        group_positions: Callable[[], Mapping[PartitionKey, int]] = dict,
    ) -> Offsets:
        """Return the offset of each of `partitions` at the places of `spec`, as `resolve` does, including times."""
        try:
            timeless = without_times(spec, partitions, self.lookup, view, bounds, self.options.message_time_zone)
        except NoMessageTime as error:
            raise ConfigurationError(
                f"a start or end by time uses the times that producers write on messages, but {error}. Let the "
                f"producers of topic {error.partition.split(':')[1]} set it, or name offsets instead"
            ) from error
        return resolve(timeless, partitions, bounds, group_positions)

    def group_positions(self, view: ClusterView) -> Mapping[PartitionKey, int]:
        """The offsets table's positions; for topics without any, the brokers'.

        All of a topic comes from one source: a mix could continue a partition where another client left the group.
        """
        topics = {layout.topic for layout in view.layouts}
        stored = self.progress.positions(topics)
        known_topics = {key.topic for key in stored}
        if known_topics.issuperset(topics):
            return stored
        on_brokers = self.lookup.group_positions(view, self.options.consumer_group)
        return {**{key: at for key, at in on_brokers.items() if key.topic not in known_topics}, **stored}


def beginning(
    spec: OffsetSpec, layout: Layout, bounds: Mapping[StoreKey, StoreBounds], finder: OffsetFinder, *, waits: bool
) -> Offsets:
    """Return where a read of `layout` begins, by the places of `spec`.

    `waits` says whether partitions whose broker is away are read once it is back. Such partitions get a start too, so
    that none begins anew later: if the offsets table has them, or if `failOnDataLoss` is false and `spec` names them.
    Raises ConfigurationError as `resolve` does, OffsetsTableError, and TubeError as the finder does.
    """
    known: dict[PartitionKey, int] = {}
    if waits and spec.default != "earliest":  # from there a partition that is not named enters as a new one does
        stored = finder.progress.positions({shown.topic for shown in layout.view.layouts})
        known = {key: at for key, at in stored.items() if layout.is_away(key)}
    chosen, partitions = spec, {*layout.configured, *known}
    if not finder.options.fail_on_data_loss:
        partitions.update(key for key, _ in spec.named if waits and layout.is_away(key))
        chosen = chosen.without_unknown(partitions)
    view = layout.view_read
    chosen = chosen.with_new_from_earliest(partitions).with_known(known)
    return finder.find(chosen, partitions, view, bounds, lambda: finder.group_positions(view))


def starts_again(
    missing: Collection[PartitionKey], snapshot: Snapshot, finder: OffsetFinder
) -> Mapping[PartitionKey, int]:
    """Where partitions of a first batch that is run again begin. ConnectError for one whose broker is silent;
    ConfigurationError, unless losses are accepted, for one that the query does not read now."""
    silent = [key for key in missing if key.store not in snapshot.bounds and key in snapshot.configured]
    if silent:
        raise ConnectError(
            f"the first batch runs again, but {some_of(silent)} have no start because their broker does not answer. "
            "Start the query again when it does",
            condition="BROKER_UNREACHABLE",
        )
    spec = finder.options.start_of("stream")
    starts = beginning(spec, snapshot.layout, snapshot.bounds, finder, waits=True)
    left = [key for key in missing if key not in starts]
    if left:
        text = (
            f"the checkpoint's first batch has not completed, and it includes {some_of(left)}, which the query no "
            "longer reads or the cluster no longer has. Their start is not stored anywhere"
        )
        if finder.options.fail_on_data_loss:
            raise ConfigurationError(
                f"{text}. Start the query once with the topics and partitions that it had then, or start with a new "
                "checkpoint; with failOnDataLoss=false the batch is read without them",
                condition="OTHER_CHECKPOINT",
            )
        _log.warning("failOnDataLoss is false; continuing: %s; their part of the batch is not read", text)
    return {key: starts[key] for key in missing if key in starts}
