"""Where the group is, told to the offsets table and, with `commitOffsetsToBroker`, to the brokers: never ahead of the
sink."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from spark_source.cluster.cluster import TubeCluster
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.options.subscription import Subscription
from spark_source.plan.batch_plan import BatchPlan
from spark_source.progress.latest_writer import LatestWriter, NoAnswer, Waits
from spark_source.progress.progress_table import ProgressTable, QueryProgress, warn_past_ends
from spark_source.stream.snapshot import Snapshot
from tubeclient.admin.broker_webs import BrokerWebs
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

_log = logging.getLogger(__name__)

_USER = "spark"
"""The user name in the brokers' logs."""

_POLL_SECONDS = 0.25


class GroupPosition:
    """One query's position. Spark tells a batch's completion by asking for the next one, or with `commit`."""

    def __init__(self, options: SourceOptions, cluster: TubeCluster, progress: ProgressTable) -> None:
        self._table = progress
        self._brokers = BrokerPositions(options, cluster) if options.commit_offsets_to_broker else None
        self.planned: BatchPlan | None = None
        """The last batch whose tasks Spark asked for."""
        self.asked_from: Offsets | None = None
        """Where the query was when Spark last asked for a batch."""
        self._gone_back_from: Mapping[PartitionKey, int] = {}
        """Where the query was before it went back, because a lost tail was accepted."""
        self._recorded: QueryProgress | None = None
        """The last complete position."""

    def open(self, view: ClusterView, source_count: int) -> None:
        """Begin, once the query holds the group."""
        if self._brokers is not None:
            self._brokers.open(view)
        self._table.open_run(source_count)

    def begin(self, initial: Offsets, snapshot: Snapshot) -> None:
        """The query begins at `initial`: nothing is complete yet."""
        if self._brokers is not None:
            now = datetime.now(UTC)
            self._brokers.record(QueryProgress(initial, snapshot.bounds, snapshot.answering_view, now, begins=True))

    def went_back(self, begin: Offsets) -> None:
        """The query goes back from `begin`."""
        self._gone_back_from = begin.clamp(self._gone_back_from, {})

    def is_news(self, complete: Offsets) -> bool:
        """Whether Spark has not said yet that the sink has everything before `complete`: with asynchronous progress
        tracking that may be the end of an earlier batch, and after a lost tail no position."""
        asked_from = self.asked_from
        return asked_from is None or bool(asked_from.clamp(self._gone_back_from, {}).overtaken_by(complete))

    def record(self, complete: Offsets, snapshot: Snapshot, back_from: Offsets | None = None) -> None:
        """The sink has everything before `complete`."""
        last, view = self._recorded, snapshot.answering_view
        if last is None or last.complete != complete or last.view != view:
            planned = self.planned if self.planned is not None and self.planned.end == complete else None
            last = QueryProgress(complete, snapshot.last_bounds, view, datetime.now(UTC), planned, back_from)
            self._recorded = last
        self._table.record(last)
        if self._brokers is not None:
            self._brokers.record(last)

    def close(self) -> None:
        """Write the last position: the next run must find it."""
        self._table.close()
        if self._brokers is not None:
            self._brokers.close()


class BrokerPositions:
    """One query's writes to the group's position on the brokers, a second apart. Only what moved is written.

    A failing broker is a warning, and the write is tried again: the query depends on Spark's checkpoint alone.
    """

    def __init__(
        self,
        subscription: Subscription,
        cluster: TubeCluster,
        *,
        interval_seconds: float = 1.0,
        waits: Waits = Waits(end=10.0),  # noqa: B008 - a tuple
    ) -> None:
        self._group = subscription.consumer_group
        self._webs: BrokerWebs = cluster.group_offsets()
        self._reads = subscription.selector()
        self._waits = waits
        self._where = f"commitOffsetsToBroker: the position of group {self._group} on the brokers"
        self._writer = LatestWriter(self._where, self._write, waits, interval_seconds=interval_seconds)
        self._last: QueryProgress | None = None
        """The last argument of `record`."""
        self._set: dict[PartitionKey, int] = {}
        """The positions on the brokers, as set here."""
        self._closed = False

    def open(self, view: ClusterView) -> None:
        """Begin, once the query holds the group. ConfigurationError if the brokers' web ports cannot be found."""
        try:
            self._webs.require(view, f"takes the position of group {self._group}")
        except TubeError as error:
            raise ConfigurationError(f"commitOffsetsToBroker cannot work: {error}, or leave the option out") from error

    def record(self, position: QueryProgress) -> None:
        """Set `position` on the brokers of its view soon. Where a query `begins`, only what is past the brokers' data
        is set, back: what a broker appends from now on is before the group's position, and would not be read."""
        self._last = position
        self._writer.put(position)

    def close(self) -> None:
        """Set the rest, for `waits.end` at most, and make sure that the group's next reader sees it. Call it while the
        group is still held: a later write would undo the next holder's position."""
        last, close_by = self._last, time.monotonic() + self._waits.end
        if last is not None and not self._closed:
            reason = self._writer.finish(self._waits.end)
            if reason is None:
                try:
                    self._writer.call(lambda: self._wait_until_shown(last.view, close_by), self._waits.end)
                except NoAnswer as error:
                    reason = str(error)
            if reason is not None:
                _log.warning(
                    "commitOffsetsToBroker: the brokers did not accept the last position of group %s: %s",
                    self._group,
                    reason,
                )
        self._closed = True
        self._writer.close()

    def _write(self, position: QueryProgress) -> None:
        """Set what has moved; runs on the writer's thread."""
        if self._closed:
            return  # without waiting for this write any longer
        view, bounds = position.view, position.bounds
        try:
            if position.begins:
                committed, silent = self._webs.answered_positions(view, self._group)
                moved = {
                    key: at
                    for key, at in position.complete.items()
                    if key.store in bounds and committed.get(key, at) > max(at, bounds[key.store].max_offset)
                }
                if moved:
                    self._webs.set_group_positions(view, self._group, moved, _USER)
                warn_past_ends(self._where, sorted(moved))
                for error in silent.values():
                    raise error
            else:
                # The checkpoint also has partitions that are no longer read or no longer exist.
                moved = {
                    key: at
                    for key, at in position.complete.items()
                    if self._set.get(key) != at and self._reads(key) and view.has(key)
                }
                self._webs.set_group_positions(view, self._group, moved, _USER)
        except BaseException:
            # Some positions may have been set, and a killed broker has forgotten older ones too.
            self._set.clear()
            raise
        self._set.update(moved)

    def _wait_until_shown(self, view: ClusterView, close_by: float) -> None:
        """A broker shows a group's first position only after saving it, up to 5 s later. The group's next reader may
        look as soon as this one has released the group, and would find none."""
        expected = {key for key in self._set if view.has(key)}
        while time.monotonic() < close_by:
            try:
                if expected <= self._webs.answered_positions(view, self._group)[0].keys():
                    return
            except Exception as error:
                _log.debug("cannot read the brokers' positions: %s", error)
            time.sleep(_POLL_SECONDS)
