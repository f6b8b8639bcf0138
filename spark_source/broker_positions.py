"""Telling the brokers how far the group has read, off the query's thread: the option `commitOffsetsToBroker`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from spark_source.cluster import Cluster, PositionBooks
from spark_source.offsets import Offsets
from spark_source.options import SourceOptions
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["BrokerPositions"]

_log = logging.getLogger(__name__)

_USER = "spark"
"""Who the brokers' logs say has moved the group."""

_TOLD_POLL_SECONDS = 0.25


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
        self._every_seconds = every_seconds
        self._retry_seconds = retry_seconds
        self._flush_seconds = flush_seconds
        self._books: PositionBooks | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._wanted: tuple[Offsets, ClusterView] | None = None
        self._set: dict[PartitionKey, int] = {}
        """What the brokers were told."""
        self._close_by: float | None = None
        self._compared = self._failing = False

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
        """Make `complete` the group's position, soon."""
        if self._books is None or (self._wanted is not None and self._wanted[0] == complete):
            return
        with self._changed:
            self._wanted = complete, view
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, args=(self._books,), name="tubeclient-broker-positions", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Set what is left, for `flush_seconds` at most, and be sure that whoever takes the group over will see it.

        To be called while the group is still held: a position that comes later would undo the next holder's.
        """
        self._books = None
        thread = self._thread
        if thread is None:
            return
        with self._changed:
            self._close_by = time.monotonic() + self._flush_seconds
            self._changed.notify_all()
        thread.join(self._flush_seconds)
        if thread.is_alive():
            _log.warning(
                "commitOffsetsToBroker: the brokers did not take the last position of group %s within %.0f s",
                self._options.consumer_group,
                self._flush_seconds,
            )

    def _run(self, books: PositionBooks) -> None:
        done: tuple[Offsets, ClusterView] | None = None
        not_before = 0.0
        while True:
            with self._changed:
                while self._close_by is None:
                    left = not_before - time.monotonic()
                    if self._wanted is not done and left <= 0:
                        break
                    self._changed.wait(None if self._wanted is done else left)
                wanted, close_by = self._wanted, self._close_by
            if wanted is not None and wanted is not done:
                worked = self._try(books, *wanted)
                done = wanted if worked else done
                not_before = time.monotonic() + (self._every_seconds if worked else self._retry_seconds)
            if close_by is not None:
                if wanted is not None and wanted is done:
                    self._wait_until_told(books, wanted[1], close_by)
                return

    def _try(self, books: PositionBooks, complete: Offsets, view: ClusterView) -> bool:
        """Whether it worked. Whatever fails in here, the query goes on."""
        group = self._options.consumer_group
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
        except Exception as error:
            if not self._failing:
                _log.warning(
                    "commitOffsetsToBroker: the position of group %s stays behind for now and is tried again: %s",
                    group,
                    error,
                )
            self._failing = True
            # A part of it may have come through, and a broker that was killed has forgotten older ones too.
            self._set.clear()
            return False
        if self._failing:
            _log.info("commitOffsetsToBroker: the brokers have the position of group %s again", group)
        self._failing = False
        self._set.update(moved)
        return True

    def _warn_if_ahead(self, complete: Offsets, told: Mapping[PartitionKey, int]) -> None:
        ahead = sorted(key for key, at in told.items() if self._reads(key) and at > complete.get(key, at))
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
