"""failOnDataLoss: what seems to be lost is looked at again, and is then an error or a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

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
from tubeclient.errors import ConnectError, TransportError
from tubeclient.keys import PartitionKey, StoreKey

__all__ = ["LossJudge"]

_log = logging.getLogger(__name__)


class LossJudge:
    """Decides about what a query was to read and does not find; warns of each thing once."""

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
        self._warned: set[object] = set()
        self._away: set[tuple[int, str]] = set()
        """The brokers that were away at the last look."""

    def held(
        self, start: Offsets, snapshot: Snapshot, ends: Mapping[StoreKey, int] | None = None
    ) -> tuple[Snapshot, Offsets]:
        """Return the newest look, and `start` with positions past a broker's end moved back to it: messages that come
        then are read. Partitions that the cluster has no more are left out: what comes by their name enters as new.
        Those of a broker that is away stay, and are read on from there when it is back. `ends` are those that the query
        is to reach. DataLoss where `failOnDataLoss` says so.
        """
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
        """DataLoss, with the advice to `forget`, where the brokers do not hold the kept beginning of a query any more
        and `failOnDataLoss` forbids that. Else nothing: what is planned from there is judged as from anywhere.
        """
        if self._fail_on_data_loss:
            self._judge(
                lambda look: [*self._find_gone(initial, look), *find_lost(initial, look.bounds, self._reads)],
                snapshot,
                forget,
            )

    def readable(self, start: Offsets, end: Offsets, snapshot: Snapshot) -> tuple[Snapshot, Offsets]:
        """Return the newest look, and `start` without anything to read up to `end` where the cluster has the partition
        no more. DataLoss where `failOnDataLoss` says so.
        """
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
        """Tell of partitions that take no readers for now, on brokers that answer."""
        new = [key for key in snapshot.layout.unreadable if key not in self._warned and key.store in snapshot.bounds]
        if new:
            self._warned.update(new)
            _log.warning(
                "%d partitions are closed to readers for now, %s among them; they are left where they are",
                len(new),
                new[0],
            )

    def _judge(
        self, find: Callable[[Snapshot], list[Loss]], snapshot: Snapshot, way_out: str = NEW_CHECKPOINT
    ) -> tuple[Snapshot, list[Loss]]:
        """Return the newest look and what it finds lost, if that is accepted: what an earlier look found too is an
        error, or a warning, once."""
        lost = find(snapshot)
        seen: set[object] = set()
        while new := [one for one in self._not_warned(lost) if one.identity not in seen]:
            seen.update(one.identity for one in new)
            snapshot = self._look_again(new)
            lost = find(snapshot)
        if lost and self._fail_on_data_loss:
            raise data_loss(lost, way_out)
        for one in self._not_warned(lost):
            self._warned.add(one.identity)
            _log.warning("failOnDataLoss is false, going on: %s", one)
        return snapshot, lost

    def _look_again(self, lost: list[Loss]) -> Snapshot:
        """Ask the brokers anew, and the master before them where partitions are missing in its layout: the layout that
        is known may be old, and a cluster is read on without its master, but given up in part only with it."""
        gone = next((one for one in lost if isinstance(one, GonePartition | AwayBroker)), None)
        if gone is not None:
            try:
                self._membership.refreshed_view(self._retry_limit_ms)
            except TransportError as error:
                raise ConnectError(
                    f"partition {gone.partition} is missing in the layout that the master showed last, and the master "
                    f"cannot be asked now whether it is gone: {error}. Nothing was given up; start the query again "
                    "when the master answers, or raise retryLimit"
                ) from error
        return self._snapshots.get(fresh=True)

    def _find_gone(self, positions: Offsets, snapshot: Snapshot) -> list[Loss]:
        gone = find_gone(positions, snapshot.configured, self._reads)
        return [*find_away(gone, snapshot.view.is_away)] if gone else []

    def _tell_back(self, away: set[tuple[int, str]]) -> None:
        """Once for each broker that was away at an earlier look; where it goes once more, it is warned of once more."""
        for back in self._away - away:
            self._warned.discard(back)
            _log.info("broker %d is shown with its topics again", back[0])
        self._away = away

    def _not_warned(self, lost: list[Loss]) -> list[Loss]:
        return [one for one in lost if one.identity not in self._warned]
