"""Judges a history while it happens and at its end: by what the project guarantees, and nothing of how it is done."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from embedded_tubemq.broker.offsets import Cursor
from offsets_store.schema import POSITION
from tests.offsets_store.memory import Commit
from tests.simulation.target import GroupLog, Row, TargetLog
from tests.simulation.world import Sent, World
from tubeclient.keys import PartitionKey
from tubeclient_ingest.settings.table_by import COUNTS

__all__ = ["Judge", "Wrong"]

_NAMED = re.compile(r"\b(\d+):([A-Za-z]\w*):(\d+)\b")
_SKIPPED = re.compile(r"^lost and skipped: (\d+:\w+:\d+)\[(\d+), (\d+)\)")

_SET_BACK_COMMITS = 3
"""After so many commits of the target no position may be in lost data."""

_SEVERAL_OWNERS_SECONDS = 35.0
"""A driver that stands still between the heartbeats of two nodes keeps one of them, until that one's lease ends."""


class _Skipped(NamedTuple):
    """A task told that it skips this range."""

    partition: str
    start: int
    end: int


class Wrong(AssertionError):
    """The history breaks a guarantee."""


class Judge:
    """Watches a world."""

    def __init__(self, world: World, group: str) -> None:
        self._world = world
        self._group = group
        self._restored = False
        self.wrongs: list[str] = []
        self.reported: set[tuple[int, str]] = set()
        """Broker and topic of each loss that was reported."""
        self._skipped: list[_Skipped] = []
        self._stale: dict[PartitionKey, tuple[int, int]] = {}
        """Brokers' positions in data that was lost since, and how many commits the target had then."""
        self._one_owner_at = 0.0
        self._epoch = 0
        self._last: dict[tuple[str, str], int] = {}
        """The newest row's number, by table and partition."""
        world.target.on_commit = self._target_committed
        world.table.on_commit = self._table_committed
        world.on_task = self._task_read
        self._tick()

    def wrong(self, text: str) -> None:
        self.wrongs.append(f"{self._world.hub.now:.3f} {text}")
        self._world.tell(f"WRONG: {text}")

    # While it happens

    def loss_told(self, text: str) -> None:
        """The product reported a loss, as an error or as a warning."""
        for broker, topic, _ in _NAMED.findall(text):
            if topic not in self._world.topics:
                continue  # an address
            where = int(broker), topic
            if not any((one.partition.broker_id, one.partition.topic) == where for one in self._gone()):
                self.wrong(f"a loss was reported where nothing is lost: {text}")
            self.reported.add(where)
        if skipped := _SKIPPED.search(text):
            partition, start, end = skipped.groups()
            self._skipped.append(_Skipped(partition, int(start), int(end)))

    def _told_to_be_skipped(self, one: Sent) -> bool:
        """Whether a task told that it skips where a message is, since the tail there was lost. If the store is filled
        again before the planner looks, nothing shows that: it is not promised that the new messages are read."""
        told = any(
            str(one.partition) == skipped.partition and skipped.start <= one.offset < skipped.end
            for skipped in self._skipped
        )
        return told and any(
            (former.partition.store, former.offset) == (one.partition.store, one.offset) for former in self._gone()
        )

    def _gone(self) -> list[Sent]:
        sent = self._world.sent
        return [sent[value] for value in self._world.gone]

    def restored(self) -> None:
        """The target was put back: positions may be ahead of it from now on."""
        self._restored = True

    def lost(self, topic: str) -> None:
        """Data of this topic is lost. The brokers' positions stay where they are until the query sets them back, which
        it tries again as long as a broker does not answer. A driver that stood still may set its last one once more."""
        count = len(self._world.target.versions)
        for key, at in [*self._brokers_positions(), *self._world.positions().items()]:
            if key.topic == topic:
                self._stale[key] = max(at, self._stale.get(key, (0, 0))[0]), count

    def _is_stale(self, key: PartitionKey, at: int) -> bool:
        stale, count = self._stale.get(key, (0, 0))
        return at <= stale and len(self._world.target.versions) < count + _SET_BACK_COMMITS

    def _target_committed(self, target: TargetLog) -> None:
        newest = target.versions[-1]
        if target.name == COUNTS:
            return
        if newest.operation == "RESTORE":
            self._last = {place: last for place, last in self._last.items() if place[0] != target.name}
            for rows in newest.rows:
                self._batch_written(target.name, rows)
        elif newest.operation == "WRITE" and newest.rows:
            self._batch_written(target.name, newest.rows[-1], was_restored=target.restored_since_look)

    def _batch_written(self, table: str, rows: Sequence[Row], *, was_restored: bool = False) -> None:
        """Each row once, and behind all rows of its partition in earlier batches. Between tasks there is no order.

        If somebody restored the target just before this commit, Delta accepts it all the same. Then the next run is
        refused until its operator has decided, and the end is judged."""
        before = dict(self._last)
        seen: set[Row] = set()
        for row in rows:
            sent = self._world.sent.get(row.value)
            if sent is None or str(sent.partition) != row.partition:
                self.wrong(f"a row that was never sent there: {row}")
            serial = _serial(row)
            place = table, row.partition
            if row in seen or (serial <= before.get(place, 0) and not was_restored):
                self.wrong(f"a row a second time, or after a later one: {row}")
            seen.add(row)
            self._last[place] = max(self._last.get(place, 0), serial)

    def _task_read(self, rows: Sequence[Row]) -> None:
        """A task has its rows in the order of their partitions."""
        last: dict[str, int] = {}
        for row in rows:
            serial = _serial(row)
            if serial <= last.get(row.partition, 0):
                self.wrong(f"a task read {row} after a later one, or twice")
            last[row.partition] = serial

    def _table_committed(self, commit: Commit) -> None:
        epoch = max((row.run_epoch for row in commit.rows if row.consumer_group == self._group), default=0)
        if epoch < self._epoch:
            self.wrong(f"the offsets table went from a run with epoch {self._epoch} back to {epoch}")
        self._epoch = max(epoch, self._epoch)
        positions = {
            PartitionKey(row.broker_id, row.topic, row.partition_id): row.next_offset
            for row in commit.rows
            if row.kind == POSITION and row.consumer_group == self._group
        }
        self._check_behind(positions, "the offsets table")

    def _check_behind(self, positions: dict[PartitionKey, int], whose: str) -> None:
        """Nothing before a position is missing in the target and still at its broker."""
        if self._restored or not positions:
            return
        written = {row.value for row in self._world.target.rows}
        for value, one in self._world.sent.items():
            at = positions.get(one.partition)
            if at is None or one.offset >= at or value in written or value in self._world.gone:
                continue
            if self._told_to_be_skipped(one):
                continue
            if not value.endswith(b"!") and not self._world.target.is_behind(value):
                self.wrong(f"{whose} is at {at} in {one.partition}, and {one} is not in the target")
                return

    def _tick(self) -> None:
        owners = self._owners()
        if len(set().union(*owners.values())) < 2:
            self._one_owner_at = self._world.hub.now
        elif self._world.hub.now - self._one_owner_at > _SEVERAL_OWNERS_SECONDS:
            self.wrong(f"the group has several owners: {owners}")
        for node_id, several in owners.items():
            if len(several) > 1:
                self.wrong(f"node {node_id} of the group has several owners: {sorted(several)}")
        positions = {key: at for key, at in self._brokers_positions() if not self._is_stale(key, at)}
        self._check_behind(positions, "the brokers' position")
        self._world.hub.at(1.0, self._tick)

    def _owners(self) -> dict[int, set[str]]:
        """The living owners of each node, by its id."""
        owners: dict[int, set[str]] = {}
        alive = self._world.alive()
        for master in self._world.cluster.masters:
            group = None if master.machine is None else master.machine.groups.get(self._group)
            for consumer in group.consumers.values() if group is not None else ():
                if consumer.peer.address in alive:
                    owners.setdefault(consumer.node_id, set()).add(consumer.peer.address)
        return owners

    def _brokers_positions(self) -> Iterator[tuple[PartitionKey, int]]:
        for broker in self._world.cluster.brokers.values():
            if broker.machine is not None:
                for cursor in broker.machine.offsets.cursors():
                    if cursor.group == self._group:
                        key = PartitionKey(broker.broker_id, cursor.topic, cursor.partition_id)
                        yield key, broker.machine.offsets.committed(Cursor(*cursor)) or 0

    # At the end

    def final(self) -> None:
        """All that was sent is in the target or with the bad records, once; or its loss was told."""
        world = self._world
        rows = Counter(row.value for row in world.target.rows)
        bad = Counter(row.value for row in world.target.bad_rows(world.bad, self._group))
        for value, count in (rows + bad).items():
            if count > 1:
                self.wrong(f"{world.sent[value]} is {rows[value]} times in the target, {bad[value]} with the bad ones")
        if isinstance(world.target, GroupLog) and not self._restored:
            for name, table in world.target.tables.items():
                dead = len(world.bad.counting(table.state(self._group), name))
                counted = world.target.counted.get(name, (0, 0))
                if name != COUNTS and counted != (len(table.rows) + dead, dead):
                    self.wrong(f"{name} has {len(table.rows)} rows and {dead} bad ones, counted as {counted}")
        for value, one in world.sent.items():
            if rows[value] or bad[value]:
                continue
            if value not in world.gone:
                if not self._told_to_be_skipped(one):
                    self.wrong(f"{one} is missing")
            elif value in world.owed and (one.partition.broker_id, one.partition.topic) not in self.reported:
                self.wrong(f"{one} was lost, and nobody said so")


def _serial(row: Row) -> int:
    """The message's number among all that were sent."""
    return int(row.value.rstrip(b"!").rpartition(b"#")[2])
