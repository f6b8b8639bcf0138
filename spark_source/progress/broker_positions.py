"""Telling the brokers how far the group has read, off the query's thread: the option `commitOffsetsToBroker`."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import NamedTuple

from spark_source.cluster.cluster import Cluster, PositionBooks
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.progress.job_thread import JobThread, NoAnswer
from spark_source.progress.newest_writer import NewestWriter
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["BrokerPositions"]

_log = logging.getLogger(__name__)

_USER = "spark"
"""Who the brokers' logs say has moved the group."""

_TOLD_POLL_SECONDS = 0.25


class _Position(NamedTuple):
    complete: Offsets
    view: ClusterView


class BrokerPositions:
    """One query's writes to the group's position on the brokers. Without the option every call does nothing.

    Positions follow the query and never lead it: `record` is called with offsets up to which the sink is complete. A
    thread sets the newest of them at most once in `every_seconds`, and only what has moved. Brokers that cannot be told
    are a warning and tried again after `retry_seconds`, as Spark's checkpoint is what the query goes by.
    """

    def __init__(
        self,
        options: SourceOptions,
        cluster: Cluster,
        *,
        every_seconds: float = 1.0,
        retry_seconds: float = 5.0,
        flush_seconds: float = 10.0,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._reads = options.selector()
        self._flush_seconds = flush_seconds
        self._books: PositionBooks | None = None
        self._thread = JobThread("tubeclient-broker-positions")
        group = options.consumer_group
        self._newest = NewestWriter(
            self._thread,
            self._write,
            trouble=f"commitOffsetsToBroker: the position of group {group} stays behind for now and is tried again",
            relief=f"commitOffsetsToBroker: the brokers have the position of group {group} again",
            retry_seconds=retry_seconds,
            every_seconds=every_seconds,
        )
        self._last: _Position | None = None
        """What `record` was called with last."""
        self._set: dict[PartitionKey, int] = {}
        """What the brokers were told."""
        self._compared = False

    def open(self, view: ClusterView) -> None:
        """Begin, once the query holds the group. ConfigurationError where the brokers' web ports cannot be learnt."""
        if not self._options.commit_offsets_to_broker:
            return
        books = self._cluster.position_books()
        try:
            books.require(view, f"takes the position of group {self._options.consumer_group}")
        except TubeError as error:
            raise ConfigurationError(f"commitOffsetsToBroker cannot work: {error}, or leave the option out") from error
        self._books = books

    def record(self, complete: Offsets, view: ClusterView) -> None:
        """Make `complete` the group's position, soon, on the brokers of `view`."""
        position = _Position(complete, view)
        if self._books is None or self._last == position:
            return
        self._last = position
        self._newest.put(self._last)

    def close(self) -> None:
        """Set what is left, for `flush_seconds` at most, and be sure that whoever takes the group over will see it.

        To be called while the group is still held: a position that comes later would undo the next holder's.
        """
        books, last = self._books, self._last
        if books is None or last is None:
            return
        close_by = time.monotonic() + self._flush_seconds
        reason = self._newest.finish(self._flush_seconds)
        if reason is None:
            try:
                self._thread.call(lambda: self._wait_until_told(books, last.view, close_by), self._flush_seconds)
            except NoAnswer as error:
                reason = str(error)
        self._books = self._last = None
        self._thread.close()
        if reason is not None:
            _log.warning(
                "commitOffsetsToBroker: the brokers did not take the last position of group %s: %s",
                self._options.consumer_group,
                reason,
            )

    def _write(self, position: _Position) -> None:
        """Set what has moved, on the thread."""
        books, group = self._books, self._options.consumer_group
        if books is None:
            return  # closed meanwhile, without waiting for this any longer
        complete, view = position
        try:
            if not self._compared:
                self._warn_if_ahead(complete, books.group_positions(view, group))
                self._compared = True
            # The checkpoint also knows partitions that are no longer read, or no longer there.
            moved = {
                key: at
                for key, at in complete.items()
                if self._set.get(key) != at and self._reads(key) and view.has(key)
            }
            books.set_group_positions(view, group, moved, _USER)
        except BaseException:
            # A part of it may have come through, and a broker that was killed has forgotten older ones too.
            self._set.clear()
            raise
        self._set.update(moved)

    def _warn_if_ahead(self, complete: Offsets, told: Mapping[PartitionKey, int]) -> None:
        """Before the first write: somebody else may have read on."""
        ahead = complete.overtaken_by({key: at for key, at in told.items() if self._reads(key)})
        if ahead:
            _log.warning(
                "commitOffsetsToBroker: group %s is ahead of this query's checkpoint on the brokers in %d partitions, "
                "%s among them: it was read on by somebody else. This query goes on from its own, and sets the group "
                "back to it",
                self._options.consumer_group,
                len(ahead),
                ahead[0],
            )

    def _wait_until_told(self, books: PositionBooks, view: ClusterView, close_by: float) -> None:
        """A broker tells a group's first position only when it has written it down, up to 5 s later. The group's next
        reader may ask as soon as this one has let go, and would be told that there is none.
        """
        expected = {key for key in self._set if view.has(key)}
        while time.monotonic() < close_by:
            try:
                if expected <= books.group_positions(view, self._options.consumer_group).keys():
                    return
            except Exception as error:
                _log.debug("the brokers' positions cannot be looked at: %s", error)
            time.sleep(_TOLD_POLL_SECONDS)
