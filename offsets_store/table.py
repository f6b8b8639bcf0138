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

    `uri` is a path or a URI that delta-rs knows; the first write creates the table. `storage_options` are delta-rs's
    (credentials, endpoints) and appear in no repr, and in no message but for an endpoint's address. One table serves
    many groups of one TubeMQ cluster: two clusters may use equal group and topic names for different data. The
    constructor does no I/O. Thread-safe. Every method raises `OffsetsTableError` if the table cannot be used.
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
        """Whether the Delta table exists; the first write creates it."""
        return DeltaRsStorage(self._uri, self._options).exists()

    def latest(self, key: GroupKey) -> GroupProgress | None:
        """The progress of exactly this group and topic set; None if there is none."""
        return progress_of(key, self._rows(key.consumer_group))

    def all_latest(self, consumer_group: str) -> list[GroupProgress]:
        """The progress of each topic set of the group, sorted by the topic set's text. A run that has completed no
        batch yet comes last, with its initial offsets."""
        return all_progress(self._rows(consumer_group))

    def groups(self) -> list[str]:
        """The names of all groups in the table, sorted; [] if there is no table."""
        return DeltaRsStorage(self._uri, self._options).groups()

    def positions(self, consumer_group: str, topics: Iterable[str]) -> dict[PartitionKey, int]:
        """Next offset of each known partition of `topics`, under any topic set; empty if none is known.

        A group that changes its topics continues from here.
        """
        return positions_of(topic_names(topics), self._rows(consumer_group))

    def keeps_start(self, key: GroupKey) -> bool:
        """Whether initial offsets are kept: the first batch of a query is not known to be complete."""
        return keeps_initial(key, self._rows(key.consumer_group))

    def open_run(
        self, key: GroupKey, source_count: int, *, lease_ms: int = LEASE_MS, force: bool = False
    ) -> OffsetsRun:
        """Begin a run of the group: it may record positions until a newer run does.

        Raises RunAlive if another run wrote less than `lease_ms` ago; a reset is over once it has written. `force`
        skips this check; use it if the other run is over or must end. A process that holds the group's nodes at the
        master knows that no other run is alive.

        The run's epoch is the current time in milliseconds, but always above the group's epochs in the table. So a
        clock that went back cannot make a new run older than a dead one. Writes nothing yet.
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
        """Write a checkpoint and delete log entries and files that no kept version needs; returns the number of files
        deleted.

        Queries need not call it: the writer of every fiftieth version does the same in a background thread. Disturbs no
        running query.
        `retention_hours` None keeps what the table's properties say, a day as it is made; time travel reaches as far
        back.
        """
        return DeltaRsStorage(self._uri, self._options).maintain(retention_hours)

    def _rows(self, consumer_group: str) -> Sequence[Row]:
        with self._access.lock:
            return self._access.storage.rows(stored_group_name(consumer_group))
