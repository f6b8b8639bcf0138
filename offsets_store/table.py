"""The offsets table for its users: what a group has read, and the runs that record it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC

from offsets_store.delta_rs import DeltaRsStorage
from offsets_store.errors import RunAlive
from offsets_store.progress import GroupKey, GroupProgress
from offsets_store.rows import Row, all_progress, keeps_initial, newest_run, positions_of, progress_of
from offsets_store.run import OffsetsRun, Storage, TableAccess, moment
from tubeclient._version import __version__
from tubeclient.keys import PartitionKey
from tubeclient.names import stored_group_name, topic_names
from tubeclient.printable import display_uri

LEASE_MS = 30_000
"""A run without a commit for so long counts as dead. A master waits as long for a client by default."""


def now_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


class OffsetsTable:
    """The Delta table that keeps how far consumer groups have read.

    One table serves many groups of one TubeMQ cluster. Two clusters may use equal group and topic names for different
    data. The constructor does no I/O. Thread-safe.

    Args:
        uri: A path or a URI that delta-rs knows. The first write creates the table.
        storage_options: Options of delta-rs (credentials, endpoints). They appear in no repr, and in no message but for
            an endpoint's address.

    Raises:
        OffsetsTableError: Every method raises this if the table cannot be used.
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
            client_version or __version__,
        )

    def __repr__(self) -> str:
        return f"OffsetsTable({display_uri(self._uri)!r})"

    def exists(self) -> bool:
        """Return whether the Delta table exists. The first write creates it."""
        return DeltaRsStorage(self._uri, self._options).exists()

    def latest(self, key: GroupKey) -> GroupProgress | None:
        """Return the progress of exactly this group and topic set, or None if there is none."""
        return progress_of(key, self._rows(key.consumer_group))

    def all_latest(self, consumer_group: str) -> list[GroupProgress]:
        """Return the progress of each topic set of the group, sorted by the topic set's text.

        A run that has completed no batch yet comes last, with its initial offsets.
        """
        return all_progress(self._rows(consumer_group))

    def groups(self) -> list[str]:
        """Return the names of all groups in the table, sorted; [] if there is no table."""
        return DeltaRsStorage(self._uri, self._options).groups()

    def positions(self, consumer_group: str, topics: Iterable[str]) -> dict[PartitionKey, int]:
        """Return the next offset of each known partition of `topics`, under any topic set; empty if none is known.

        A group that changes its topics continues from here.
        """
        return positions_of(topic_names(topics), self._rows(consumer_group))

    def keeps_start(self, key: GroupKey) -> bool:
        """Return whether initial offsets are kept: the first batch of a query is not known to be complete."""
        return keeps_initial(key, self._rows(key.consumer_group))

    def open_run(
        self, key: GroupKey, source_count: int, *, lease_ms: int = LEASE_MS, force: bool = False
    ) -> OffsetsRun:
        """Begin a run of the group. It may record positions until a newer run does. Writes nothing yet.

        The run's epoch is the current time in milliseconds, but always above the group's epochs in the table. So a
        clock that went back cannot make a new run older than a dead one.

        Args:
            lease_ms: How long ago another run must have written. A reset counts as over once it has written.
            force: Skip this check. Use it if the other run is over or must end. A process that holds the group's nodes
                at the master knows that no other run is alive.

        Raises:
            RunAlive: Another run wrote less than `lease_ms` ago.
        """
        newest = newest_run(self._rows(key.consumer_group))
        now = self._access.clock_ms()
        alive = (
            newest is not None and not newest.by_reset and abs(now - newest.updated_at.timestamp() * 1000) < lease_ms
        )
        if newest is not None and alive and not force:
            wrote = newest.updated_at.astimezone(UTC).isoformat(timespec="seconds")
            raise RunAlive(
                f"group {key.consumer_group!r}: the run that started at {moment(newest.run_epoch)} (epoch"
                f" {newest.run_epoch}) wrote offsets at {wrote},"
                f" less than {lease_ms / 1000:g} s ago, and may be alive. Stop it and wait that long, or force the"
                " take-over (of `tubeclient offsets reset`: --force): the other run then stops at its next commit"
            )
        return OffsetsRun(self._access, key, source_count, now if newest is None else max(now, newest.run_epoch + 1))

    def maintain(self, retention_hours: int | None = None) -> int:
        """Write a checkpoint, and delete log entries and files that no kept version needs. Disturbs no running query.

        Queries need not call it: the writer of every fiftieth version does the same in a background thread.

        Args:
            retention_hours: How far time travel reaches back. None keeps what the table's properties say, which is a
                day when the table is created.

        Returns:
            The number of files deleted.
        """
        return DeltaRsStorage(self._uri, self._options).maintain(retention_hours)

    def _rows(self, consumer_group: str) -> Sequence[Row]:
        with self._access.lock:
            return self._access.storage.rows(stored_group_name(consumer_group))
