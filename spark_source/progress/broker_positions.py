"""Telling the brokers how far the group has read, off the query's thread: the option `commitOffsetsToBroker`."""

from __future__ import annotations

import logging
import time

from spark_source.cluster.cluster import Cluster, PositionBooks
from spark_source.options.subscription import Subscription
from spark_source.progress.follower import Follower, Waits
from spark_source.progress.job_thread import JobThread, NoAnswer
from spark_source.progress.position import AheadWarning, Position
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["BrokerPositions"]

_log = logging.getLogger(__name__)

_USER = "spark"
"""Who the brokers' logs say has moved the group."""

_TOLD_POLL_SECONDS = 0.25


class BrokerPositions:
    """One query's writes to the group's position on the brokers. Before `open` every other call does nothing.

    Positions follow the query and never lead it: `record` is called with offsets up to which the sink is complete. A
    thread sets the newest of them at most once in `interval_seconds`, and only what has moved. Brokers that cannot be
    told are a warning and tried again, as Spark's checkpoint is what the query goes by.
    """

    def __init__(
        self,
        subscription: Subscription,
        cluster: Cluster,
        *,
        interval_seconds: float = 1.0,
        waits: Waits = Waits(end=10.0),  # noqa: B008 - a tuple
    ) -> None:
        self._group = subscription.consumer_group
        self._cluster = cluster
        self._reads = subscription.selector()
        self._waits = waits
        self._books: PositionBooks | None = None
        self._thread = JobThread("tubeclient-broker-positions")
        where = f"commitOffsetsToBroker: the position of group {self._group} on the brokers"
        self._follower = Follower(where, self._thread, self._write, waits, interval_seconds=interval_seconds)
        self._ahead = AheadWarning(where, "by somebody else", self._reads)
        self._last: Position | None = None
        """What `record` was called with last."""
        self._set: dict[PartitionKey, int] = {}
        """What the brokers were told."""

    def open(self, view: ClusterView) -> None:
        """Begin, once the query holds the group. ConfigurationError where the brokers' web ports cannot be learnt."""
        books = self._cluster.position_books()
        try:
            books.require(view, f"takes the position of group {self._group}")
        except TubeError as error:
            raise ConfigurationError(f"commitOffsetsToBroker cannot work: {error}, or leave the option out") from error
        self._books = books

    def record(self, position: Position) -> None:
        """Make `position` the group's, soon, on the brokers of its view."""
        if self._books is not None and position is not self._last:
            self._last = position
            self._follower.follow(position)

    def close(self) -> None:
        """Set what is left, for `waits.end` at most, and be sure that whoever takes the group over will see it.

        To be called while the group is still held: a position that comes later would undo the next holder's.
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
        """Set what has moved, on the thread."""
        books, group, view = self._books, self._group, position.view
        if books is None:
            return  # closed meanwhile, without waiting for this any longer
        try:
            self._ahead.compare(position.complete, lambda: books.group_positions(view, group))
            # The checkpoint also knows partitions that are no longer read, or no longer there.
            moved = {
                key: at
                for key, at in position.complete.items()
                if self._set.get(key) != at and self._reads(key) and view.has(key)
            }
            books.set_group_positions(view, group, moved, _USER)
        except BaseException:
            # A part of it may have come through, and a broker that was killed has forgotten older ones too.
            self._set.clear()
            raise
        self._set.update(moved)

    def _wait_until_told(self, books: PositionBooks, view: ClusterView, close_by: float) -> None:
        """A broker tells a group's first position only when it has written it down, up to 5 s later. The group's next
        reader may ask as soon as this one has let go, and would be told that there is none.
        """
        expected = {key for key in self._set if view.has(key)}
        while time.monotonic() < close_by:
            try:
                if expected <= books.group_positions(view, self._group).keys():
                    return
            except Exception as error:
                _log.debug("the brokers' positions cannot be looked at: %s", error)
            time.sleep(_TOLD_POLL_SECONDS)
