"""failOnDataLoss: checks a suspected loss with a second look, then raises an error or logs a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from spark_source.cluster.membership import Membership
from spark_source.offsets.offsets import Offsets
from spark_source.plan.losses import (
    NEW_CHECKPOINT,
    AwayBroker,
    GonePartition,
    Loss,
    LostOffsets,
    data_loss,
    find_away,
    find_cut,
    find_gone,
    find_lost,
)
from spark_source.stream.snapshot import Snapshot, SnapshotCache
from tubeclient.errors import ConnectError, DataLoss, TransportError
from tubeclient.keys import PartitionKey, StoreKey

__all__ = ["LossJudge", "told_loss"]

_log = logging.getLogger(__name__)


def told_loss(lost: Sequence[Loss], way_out: str = NEW_CHECKPOINT) -> DataLoss:
    """Return the error for losses. If there are several, each is logged with what is lost: the error has not the
    room."""
    for one in lost if len(lost) > 1 else ():
        _log.error("the query ends, since failOnDataLoss is true: %s", one)
    return data_loss(lost, way_out)


class LossJudge:
    """Judges data that a query should read but does not find; warns of each loss once."""

    def __init__(
        self,
        membership: Membership,
        snapshots: SnapshotCache,
        reads: Callable[[PartitionKey], bool],
        *,
        fail_on_data_loss: bool,
        retry_limit_ms: int,
    ) -> None:
        self._membership = membership
        self._snapshots = snapshots
        self._reads = reads
        self._fail_on_data_loss = fail_on_data_loss
        self._retry_limit_ms = retry_limit_ms
        self._warned: dict[tuple[object, object], object] = {}
        """The last loss of each kind, by partition or broker. No more: a query may lose something in each batch for
        months."""
        self._warned_unreadable: set[PartitionKey] = set()
        self._away: set[tuple[int, str]] = set()
        """The brokers that were away at the last look."""

    def held(
        self, start: Offsets, snapshot: Snapshot, ends: Mapping[StoreKey, int] | None = None
    ) -> tuple[Snapshot, Offsets]:
        """Return the newest snapshot, and `start` with positions past a broker's end moved back to the end, so that
        later messages are read. Partitions that left the cluster are left out: a later partition of that name is new.
        Partitions of a broker that is away stay, and are read from there when it is back. `ends` are the offsets that
        the query must reach. DataLoss if `failOnDataLoss` says so."""
        snapshot, lost = self._judge(
            lambda look: [
                *self._find_gone(start, look),
                *find_lost(start, look.bounds, self._reads),
                *find_cut(start, ends or {}, look.bounds, self._reads),
            ],
            snapshot,
        )
        past_end = {one.partition: one.high for one in lost if isinstance(one, LostOffsets) and not one.expired}
        gone = {one.partition for one in lost if isinstance(one, GonePartition)}
        self._tell_back({one.identity for one in lost if isinstance(one, AwayBroker)})
        start = start.merge(past_end) if past_end else start
        return snapshot, start.without(gone) if gone else start

    def check_kept(self, initial: Offsets, snapshot: Snapshot, forget: str) -> None:
        """Raise DataLoss, with the advice `forget`, if the brokers no longer hold the kept initial offsets and
        `failOnDataLoss` forbids that. Otherwise later planning judges them as usual."""
        if self._fail_on_data_loss:
            self._judge(
                lambda look: [*self._find_gone(initial, look), *find_lost(initial, look.bounds, self._reads)],
                snapshot,
                forget,
            )

    def readable(self, start: Offsets, end: Offsets, snapshot: Snapshot) -> tuple[Snapshot, Offsets]:
        """Return the newest snapshot, and `start` moved up to `end` for partitions that left the cluster, so that
        nothing of them is read. DataLoss if `failOnDataLoss` says so."""
        snapshot, gone = self._judge(
            lambda look: [
                one._replace(is_away=look.view.is_away(one.partition))
                for one in find_gone(start, look.configured, self._reads)
                if end.get(one.partition, one.position) != one.position
            ],
            snapshot,
        )
        return snapshot, start.merge({one.partition: end[one.partition] for one in gone}) if gone else start

    def warn_unreadable(self, snapshot: Snapshot) -> None:
        """Warn of partitions, on brokers that answer, that cannot be read for now."""
        new = [
            key
            for key in snapshot.layout.unreadable
            if key not in self._warned_unreadable and key.store in snapshot.bounds
        ]
        if new:
            self._warned_unreadable.update(new)
            _log.warning(
                "%d partitions, such as %s, are closed to readers for now and keep their positions",
                len(new),
                new[0],
            )

    def _judge(
        self, find: Callable[[Snapshot], list[Loss]], snapshot: Snapshot, way_out: str = NEW_CHECKPOINT
    ) -> tuple[Snapshot, list[Loss]]:
        """Return the newest snapshot and its accepted losses. A loss counts if an earlier snapshot had it too; it is an
        error, or a warning, once."""
        lost = find(snapshot)
        seen: set[object] = set()
        while new := [one for one in self._not_warned(lost) if one.identity not in seen]:
            seen.update(one.identity for one in new)
            snapshot = self._look_again(new)
            lost = find(snapshot)
        if lost and self._fail_on_data_loss:
            raise told_loss(lost, way_out)
        for one in self._not_warned(lost):
            self._warned[_kind(one)] = one.identity
            _log.warning("failOnDataLoss is false, going on: %s", one)
        return snapshot, lost

    def _look_again(self, lost: list[Loss]) -> Snapshot:
        """Query the brokers again. If partitions are missing in the layout, query the master first: the known layout
        may be old. A query reads on without the master, but gives partitions up only if the master confirms."""
        gone = next((one for one in lost if isinstance(one, GonePartition | AwayBroker)), None)
        if gone is not None:
            try:
                self._membership.refreshed_view(self._retry_limit_ms)
            except TransportError as error:
                raise ConnectError(
                    f"partition {gone.partition} is missing in the master's last layout, and the master does not "
                    f"answer now to confirm that: {error}. Nothing was given up; start the query again when the "
                    "master answers, or raise retryLimit",
                    condition="MASTER_UNREACHABLE",
                ) from error
        return self._snapshots.get(fresh=True)

    def _find_gone(self, positions: Offsets, snapshot: Snapshot) -> list[Loss]:
        gone = find_gone(positions, snapshot.configured, self._reads)
        return [*find_away(gone, snapshot.view.is_away)] if gone else []

    def _tell_back(self, away: set[tuple[int, str]]) -> None:
        """Log once for each broker that was away at an earlier look; if it goes away again, a new warning follows."""
        for back in self._away - away:
            self._warned.pop(back, None)
            _log.info("broker %d is listed with its topics again", back[0])
        self._away = away

    def _not_warned(self, lost: list[Loss]) -> list[Loss]:
        return [one for one in lost if self._warned.get(_kind(one)) != one.identity]


def _kind(loss: Loss) -> tuple[object, object]:
    """What is lost where, without its position."""
    where, *_, what = loss.identity
    return where, what
