"""Sets the group's position on the brokers, outside of the query's thread: the option `commitOffsetsToBroker`."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from spark_source.cluster.cluster import TubeCluster
from spark_source.options.subscription import Subscription
from spark_source.progress.follower import Follower, JobThread, NoAnswer, Waits
from spark_source.progress.position import Position, warn_past_ends
from tubeclient.admin.broker_webs import BrokerWebs
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["BrokerPositions"]

_log = logging.getLogger(__name__)

_USER = "spark"
"""The user name in the brokers' logs."""

_TOLD_POLL_SECONDS = 0.25


class BrokerPositions:
    """One query's writes to the group's position on the brokers. Before `open` all other calls do nothing.

    Positions never lead the query: `record` gets offsets up to which the sink is complete. A thread sets the newest of
    them at most once per `interval_seconds`, and only those that moved. A failing broker is a warning, and the write is
    tried again, because the query only depends on Spark's checkpoint.
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
        self._cluster = cluster
        self._reads = subscription.selector()
        self._waits = waits
        self._books: BrokerWebs | None = None
        self._thread = JobThread("tubeclient-broker-positions")
        self._where = f"commitOffsetsToBroker: the position of group {self._group} on the brokers"
        self._follower = Follower(self._where, self._thread, self._write, waits, interval_seconds=interval_seconds)
        self._last: Position | None = None
        """The last argument of `record`."""
        self._set: dict[PartitionKey, int] = {}
        """The positions on the brokers, as set here."""

    def open(self, view: ClusterView) -> None:
        """Begin, once the query holds the group. ConfigurationError if the brokers' web ports cannot be found."""
        books = self._cluster.position_books()
        try:
            books.require(view, f"takes the position of group {self._group}")
        except TubeError as error:
            raise ConfigurationError(f"commitOffsetsToBroker cannot work: {error}, or leave the option out") from error
        self._books = books

    def record(self, position: Position) -> None:
        """Set `position` on the brokers of its view soon."""
        if self._books is not None and position is not self._last:
            self._last = position
            self._follower.follow(position)

    def begin(self, position: Position) -> None:
        """Soon set back what is past the brokers' data: the query begins at `position`, and what a broker appends from
        now on is before the group's position, and not read."""
        self.record(position._replace(begins=True))

    def close(self) -> None:
        """Set the rest, for `waits.end` at most, and make sure that the group's next reader sees it.

        Call it while the group is still held: a later write would undo the next holder's position.
        """
        books, last = self._books, self._last
        if books is None or last is None:
            return
        close_by = time.monotonic() + self._waits.end
        reason = self._follower.finish(self._waits.end)
        if reason is None:
            try:
                self._thread.call(lambda: self._wait_until_told(books, last.view, close_by), self._waits.end)
            except NoAnswer as error:
                reason = str(error)
        self._books = self._last = None
        self._thread.close()
        if reason is not None:
            _log.warning(
                "commitOffsetsToBroker: the brokers did not take the last position of group %s: %s",
                self._group,
                reason,
            )

    def _write(self, position: Position) -> None:
        """Set what has moved; runs on the thread."""
        books, group, view = self._books, self._group, position.view
        if books is None:
            return  # closed meanwhile, without waiting for this write any longer
        try:
            if position.begins:
                kept, silent = books.answered_positions(view, group)
                moved = self._past_their_ends(position, kept)
                if moved:
                    books.set_group_positions(view, group, moved, _USER)
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
                books.set_group_positions(view, group, moved, _USER)
        except BaseException:
            # Some positions may have been set, and a killed broker has forgotten older ones too.
            self._set.clear()
            raise
        self._set.update(moved)

    def _past_their_ends(self, start: Position, kept: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        """Where those partitions begin whose kept position is past the data of their broker."""
        bounds = start.bounds
        return {
            key: at
            for key, at in start.complete.items()
            if key.store in bounds and kept.get(key, at) > max(at, bounds[key.store].max_offset)
        }

    def _wait_until_told(self, books: BrokerWebs, view: ClusterView, close_by: float) -> None:
        """A broker shows a group's first position only after saving it, up to 5 s later. The group's next reader may
        look as soon as this one has released the group, and would find none."""
        expected = {key for key in self._set if view.has(key)}
        while time.monotonic() < close_by:
            try:
                told, _ = books.answered_positions(view, self._group)
                if expected <= told.keys():
                    return
            except Exception as error:
                _log.debug("cannot read the brokers' positions: %s", error)
            time.sleep(_TOLD_POLL_SECONDS)
