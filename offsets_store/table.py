"""The offsets table as its users see it: what a group has read, and the run that goes on reading."""

from __future__ import annotations

import importlib.metadata
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from offsets_store.companion import Companion
from offsets_store.delta_rs import DeltaRsStorage
from offsets_store.errors import RunAlive, display_uri
from offsets_store.group_writer import TableAccess
from offsets_store.history import GroupHistory, Versions, history_of, rows_at_sequence
from offsets_store.progress import GroupKey, GroupProgress
from offsets_store.rows import Row, keeps_initial, newest_run, positions_of, progress_of, topic_sets_of, waiting_in
from offsets_store.run import OffsetsRun
from offsets_store.shared_run import SharedRun
from offsets_store.storage import Storage
from tubeclient.keys import PartitionKey

__all__ = ["LEASE_MS", "OffsetsTable", "now_ms"]

LEASE_MS = 30_000
"""After so long without a commit a run counts as dead, as long as a master waits for a client by default."""


def now_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


class OffsetsTable:
    """The Delta table that keeps how far consumer groups have read.

    `uri` is a path or a URI that delta-rs knows; the table is made by the first write. `storage_options` are delta-rs's
    (credentials, endpoints) and appear in no message and no repr; `storage` writes the table by other means. One table
    serves many groups, of one TubeMQ cluster: two clusters may use the same group and topic names for different data.
    Opening costs nothing: the storage is first touched by the first call. Safe for use by several threads. Every method
    raises `OffsetsTableError` where the table cannot be used.
    """

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        clock_ms: Callable[[], int] = now_ms,
        client_version: str | None = None,
        storage: Storage | None = None,
    ) -> None:
        self._uri = uri
        self._options = dict(storage_options or {})
        self._access = TableAccess(
            storage or DeltaRsStorage(uri, self._options),
            threading.Lock(),
            clock_ms,
            client_version or _installed_version(),
        )
        self._first_looks: dict[str, tuple[tuple[int, int], int]] = {}
        """By group: epoch and sequence of the row that its newest run wrote last, and when it was seen first here."""

    def __repr__(self) -> str:
        return f"OffsetsTable({display_uri(self._uri)!r})"

    def exists(self) -> bool:
        """Whether there is a Delta table at the place by now; the first write makes it."""
        return bool(self._past().commits(1))

    def latest(self, key: GroupKey) -> GroupProgress | None:
        """What is kept for exactly this group and topic set; None if nothing is."""
        return progress_of(key, self._rows(key.consumer_group))

    def all_latest(self, consumer_group: str) -> list[GroupProgress]:
        """The same for each topic set of the group that positions are kept for, sorted by its text."""
        rows = self._rows(consumer_group)
        return [found for key in topic_sets_of(rows) if (found := progress_of(key, rows)) is not None]

    def history(self, consumer_group: str, limit: int = 20) -> GroupHistory:
        """The last commits that changed the group's rows, newest first, at most `limit`: who moved what when.

        From the Delta log and time travel, read with delta-rs: some milliseconds for each commit on a local disk.
        """
        return history_of(self._past(), consumer_group, limit)

    def at_version(self, key: GroupKey, version: int) -> GroupProgress | None:
        """What was kept as of a version of the Delta table; None if nothing was.

        Raises VersionGone where it does not exist, or not any more.
        """
        return progress_of(key, self._past().rows_at(key.consumer_group, version))

    def at_sequence(self, key: GroupKey, sequence: int) -> GroupProgress | None:
        """What was kept right after the group's commit number `sequence`; None if nothing was for `key`.

        Raises OffsetsTableError where the group has no such commit, or the table does not keep it any more.
        """
        return progress_of(key, rows_at_sequence(self._past(), key.consumer_group, sequence))

    def positions(self, consumer_group: str, topics: Iterable[str]) -> dict[PartitionKey, int]:
        """Where the group's next batch starts in each known partition of `topics`, whatever else it subscribed then.

        This is what a group that changes its topics goes on from. Empty if nothing is kept.
        """
        return positions_of(frozenset(topics), self._rows(consumer_group))

    def waiting(self, consumer_group: str, topics: Iterable[str]) -> dict[PartitionKey, str]:
        """Where the group is to begin in those partitions of `topics` that have no position yet, because their broker
        was down whenever the group was read: texts, as the query's offsets have them."""
        return waiting_in(frozenset(topics), self._rows(consumer_group))

    def keeps_start(self, key: GroupKey) -> bool:
        """Whether the place is kept where a query began whose first batch was not seen to complete."""
        return keeps_initial(key, self._rows(key.consumer_group))

    def open_run(
        self, key: GroupKey, source_count: int, *, lease_ms: int = LEASE_MS, force: bool = False
    ) -> OffsetsRun:
        """Begin a run of the group: one reader's life, which may record positions until a newer run does.

        Raises RunAlive where another run wrote less than `lease_ms` ago, unless `force` says that it is over, or has to
        be: whoever holds the group's nodes at the master knows that nobody else does. A run whose clock is ahead may
        have written at a time that is still to come: its lease counts from this table's first look at what it wrote.

        The run's epoch is this moment in milliseconds, but always above every epoch the group has in the table, so that
        a clock that went backwards cannot make a new run older than a dead one. Writes nothing yet.
        """
        newest = newest_run(self._rows(key.consumer_group))
        now = self._access.clock_ms()
        if newest is not None and not force:
            written_ms = newest.updated_at.timestamp() * 1000
            if now - min(written_ms, self._first_look_ms(newest, now)) < lease_ms:
                ahead_ms = max(0, round(written_ms - now))
                raise RunAlive(key.consumer_group, newest.run_epoch, newest.updated_at, lease_ms, ahead_ms)
        return OffsetsRun(self._access, key, source_count, now if newest is None else max(now, newest.run_epoch + 1))

    def join_run(self, key: GroupKey, source_count: int) -> Companion:
        """Write beside the group's run, in the name of whatever run wrote last: for who knows that a batch is complete.

        The companion moves the group forward only, and the run goes on as if it had written itself. Touches nothing
        yet. It keeps no other query away: with none but companions writing, two queries of one group mix.
        """
        return Companion(self._access, key, source_count)

    def share_run(self, key: GroupKey, source_count: int) -> SharedRun:
        """Take part in the group's newest run, as one of several consumers that each record their own partitions.

        Call it once the group's master has let the consumer in: it says who may read. Writes nothing yet.
        """
        newest = newest_run(self._rows(key.consumer_group))
        return SharedRun(self._access, key, source_count, None if newest is None else newest.run_epoch)

    def maintain(self, retention_hours: int | None = None) -> int:
        """Write a checkpoint and remove log entries and files that no kept version needs; returns how many files went.

        A query need not call it: whoever commits each fiftieth version does the same in a thread beside its commits
        (`offsets_store.upkeep`). Touches nothing that a running query uses. `retention_hours` None keeps a week, and on
        a local disk the newest 1 000 commits, as far as time travel then reaches back.
        """
        return self._access.storage.maintain(retention_hours)

    def _past(self) -> Versions:
        """With a handle of its own, as it goes back to older versions."""
        return DeltaRsStorage(self._uri, self._options)

    def _first_look_ms(self, newest: Row, now_ms: int) -> int:
        """When this table saw first what the group's newest run wrote last."""
        written = newest.run_epoch, newest.sequence
        known = self._first_looks.get(newest.consumer_group)
        if known is None or known[0] != written or known[1] > now_ms:
            known = self._first_looks[newest.consumer_group] = written, now_ms
        return known[1]

    def _rows(self, consumer_group: str) -> Sequence[Row]:
        with self._access.lock:
            return self._access.storage.rows(consumer_group)


def _installed_version() -> str:
    try:
        return importlib.metadata.version("pyspark-tubeclient")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
