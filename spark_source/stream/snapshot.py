"""The cluster's layout and bounds of a moment ago. An idle query asks about 90 times a second; that must not load the
brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from spark_source.offsets.offsets import Offsets, PartitionRun, PartitionSet
from tubeclient.consumers.group import GroupMembership
from tubeclient.errors import ConfigurationError, ConnectError, TubeError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup
from tubeclient.positions.stores import StoreGrowth

_log = logging.getLogger(__name__)

_NAMED = 3

MIN_REFRESH_SECONDS = 0.5
_MOST_TIME_SHARE = 0.1
"""Of the planner's time, for looking up offsets: querying a broker store by store may be slow."""


class Layout:
    """The part of a cluster's layout that a query reads; computed once per view."""

    def __init__(self, reads: Callable[[PartitionKey], bool], view: ClusterView) -> None:
        self.view = view
        self._reads = reads
        self.configured = PartitionSet(filter(reads, view.partitions()))
        """The partitions that the query reads, including those that cannot be read now."""

    @cached_property
    def view_read(self) -> ClusterView:
        """The view of the brokers that the query reads from."""
        read = {key.broker_id for key in self.configured}
        return self.view.without(self.view.brokers.keys() - read)

    def is_away(self, key: PartitionKey) -> bool:
        """Whether the query reads this partition and its broker is away; see ClusterView.is_away."""
        return self.view.is_away(key) and self._reads(key)

    @cached_property
    def readable(self) -> PartitionSet:
        """The partitions that can be read now."""
        if all(layout.subscribable for layout in self.view.layouts):
            return self.configured
        return PartitionSet(key for key in self.configured if self.view.is_subscribable(key))


@dataclass(frozen=True)
class Snapshot:
    """Layout and bounds, looked up together."""

    layout: Layout
    bounds: Mapping[StoreKey, StoreBounds]
    """Of the stores whose brokers answered. Nothing is planned for other stores, nor counted as lost."""
    silent: Mapping[int, TubeError]
    """By broker id, why a broker did not answer for all its stores."""
    last_bounds: Mapping[StoreKey, StoreBounds]
    """`bounds`, plus earlier bounds of silent brokers."""
    growth: Mapping[StoreKey, StoreGrowth]
    """How the stores of `bounds` gained partitions while the query ran."""

    @classmethod
    def of(cls, layout: Layout, lookup: OffsetLookup, before: Snapshot | None = None) -> Snapshot:
        """Take a snapshot of the cluster in `layout`; `before` is the previous one."""
        answer = lookup.snapshot(layout.view_read)
        last = before.last_bounds if before is not None and answer.silent else {}
        carried_over = {store: limits for store, limits in last.items() if store in layout.view.stores()}
        return cls(layout, answer.bounds, answer.silent, {**carried_over, **answer.bounds}, answer.growth)

    @cached_property
    def answering_view(self) -> ClusterView:
        """The view without brokers that are silent, or not read."""
        return self.layout.view_read.without(self.silent.keys())

    def unanswered(self, broker_id: int) -> list[PartitionKey]:
        """The partitions of a silent broker whose stores it did not answer for, sorted."""
        return [key for key in self.configured if key.broker_id == broker_id and key.store not in self.bounds]

    @property
    def view(self) -> ClusterView:
        return self.layout.view

    @property
    def configured(self) -> PartitionSet:
        """See Layout."""
        return self.layout.configured

    @cached_property
    def latest(self) -> Offsets:
        """The end of each partition, as far as its broker ever reported it."""
        return Offsets.of_runs(
            {
                store: [PartitionRun(first, last, self.last_bounds[store].max_offset) for first, last in spans]
                for store, spans in self.configured.spans.items()
                if store in self.last_bounds
            }
        )


class SnapshotCache:
    """Takes a snapshot at most twice a second while idle, and less often if it takes long."""

    def __init__(
        self,
        reads: Callable[[PartitionKey], bool],
        membership: GroupMembership,
        lookup: OffsetLookup,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reads = reads
        self._membership = membership
        self._lookup = lookup
        self._clock = clock
        self._shown: ClusterView | None = None
        self._layout: Layout | None = None
        self._last: Snapshot | None = None
        self._fresh_until = self._rested_at = 0.0

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot, however old."""
        return self._last

    def get(self, *, fresh: bool = False, busy: bool = False) -> Snapshot:
        """Return a snapshot: with `fresh` always a new one, with `busy` as new as the time share for lookups allows.
        Raises errors of the lookup, and of the membership: a query that lost its group must not go on."""
        shown = self._membership.view()
        began = self._clock()
        if self._last is None or fresh or began >= (self._rested_at if busy else self._fresh_until):
            # Heartbeats bring new tokens more often than the layout is looked up.
            token = self._membership.visit_token
            if self._shown is not shown or self._layout is None or self._layout.view.visit_token != token:
                self._shown, self._layout = shown, Layout(self._reads, replace(shown, visit_token=token))
            before = frozenset() if self._last is None else self._last.silent.keys()
            self._last = Snapshot.of(self._layout, self._lookup, self._last)
            took = self._clock() - began
            if self._report_silent(before, self._last):  # it was waited for; that does not repeat
                began, took = began + took, 0.0
            self._rested_at = began + took + took / _MOST_TIME_SHARE
            self._fresh_until = max(self._rested_at, began + took + MIN_REFRESH_SECONDS)
        return self._last

    @staticmethod
    def _report_silent(before: Set[int], snapshot: Snapshot) -> list[int]:
        """Warn of each newly silent broker, with its partitions; returns these brokers."""
        for broker_id in sorted(before - snapshot.silent.keys()):
            _log.info("broker %d answers again", broker_id)
        new = sorted(snapshot.silent.keys() - before)
        for broker_id in new:
            _log.warning(
                "broker %s does not answer right now, so %s wait for it and keep their positions or starting "
                "offsets; reading from other brokers continues. The reason: %s",
                snapshot.view.brokers[broker_id],
                some_of(snapshot.unanswered(broker_id)),
                snapshot.silent[broker_id],
            )
        return new


class RunEnd:
    """Where a query of Trigger.AvailableNow ends: the partitions at the start, and the end of each store when its
    broker first answered, at once unless it was down. Those in `until` end there; ConfigurationError if one is past its
    broker's data."""

    def __init__(self, frozen: Snapshot, until: Offsets | None = None) -> None:
        self.frozen = frozen
        self.until = until or Offsets({})
        for key, at in self.until.items():
            if (limits := frozen.bounds.get(key.store)) is not None and at > limits.max_offset:
                raise ConfigurationError(
                    f"until has {at} for partition {key}, whose data ends at {limits.max_offset}; name an offset up to"
                    " it"
                )
        self.ends = {store: limits.max_offset for store, limits in frozen.bounds.items()}
        self.ends |= {store: max(run.offset for run in runs) for store, runs in self.until.runs.items()}

    def within(self, recent: Snapshot, reached: Offsets) -> tuple[PartitionSet, Mapping[StoreKey, StoreBounds]]:
        """What is left to read: the partitions that still exist and are not at their end, up to the
        stores' ends."""
        there = self.frozen.configured
        at_end = {key for key, at in self.until.items() if reached.get(key, -1) >= at}
        bounds: dict[StoreKey, StoreBounds] = {}
        for store, limits in recent.bounds.items():
            if store in there.spans:
                end = self.ends.setdefault(store, limits.max_offset)
                bounds[store] = StoreBounds(limits.min_offset, max(limits.min_offset, min(end, limits.max_offset)))
        return PartitionSet(key for key in recent.layout.readable if key in there and key not in at_end), bounds

    def capped(self, end: Offsets, start: Offsets) -> Offsets:
        """The batch's `end` without what is past `until`; no partition moves back from `start`."""
        return end.clamp({}, {key: max(at, start.get(key, at)) for key, at in self.until.items()})

    def is_reached(self, start: Offsets, *, is_first: bool) -> bool:
        """Whether a query that begins at `start` has nothing to read up to `until`. ConfigurationError: it `is_first`,
        so it has read nothing before, and it begins past an offset of `until`."""
        past = [key for key, at in self.until.items() if start.get(key, at) > at]
        if past and is_first:
            raise ConfigurationError(
                f"until has {self.until[past[0]]} for partition {past[0]}, which begins at {start[past[0]]}; name a "
                "later end, or start earlier if the brokers still have the messages"
            )
        return all(start.get(key, -1) >= at for key, at in self.until.items())

    def waited_for_silent(self, reached: Offsets, recent: Snapshot, lookup: OffsetLookup) -> bool:
        """Whether brokers whose data the run lacks were silent and answer again; does not wait if none was silent.
        ConnectError if they do not answer for `retryLimit`: Spark would take the query's end for that of its data."""
        left = self._left(reached, recent)
        if not left:
            return False
        try:
            lookup.bounds(recent.layout.view_read)
        except TubeError as error:
            raise ConnectError(
                f"Trigger.AvailableNow has read all except {some_of(left)}, whose brokers do not answer: {error}. "
                "Everything that was read is in the checkpoint; start the query again when they answer",
                condition="BROKER_UNREACHABLE",
            ) from error
        return True

    def _left(self, reached: Offsets, recent: Snapshot) -> list[PartitionKey]:
        """The partitions that were not read to their end because their broker does not answer."""
        return [
            key
            for broker_id in recent.silent
            for key in recent.unanswered(broker_id)
            if key in self.frozen.configured
            and (
                key not in reached
                or key.store not in self.ends
                or reached[key] < self.until.get(key, self.ends[key.store])
            )
        ]


def some_of(partitions: list[PartitionKey]) -> str:
    """The number of partitions, and the first of them."""
    named = ", ".join(map(str, partitions[:_NAMED]))
    more = f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else ""
    return f"{len(partitions)} partition{'' if len(partitions) == 1 else 's'} ({named}{more})"
