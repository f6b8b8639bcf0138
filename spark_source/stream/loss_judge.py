"""failOnDataLoss: checks a suspected loss with a second look, then raises an error or logs a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.losses import NEW_CHECKPOINT, Loss, data_loss, find_cut, find_gone, find_lost, gone, gone_or_away
from spark_source.stream.snapshot import Snapshot, SnapshotCache
from tubeclient.consumers.group import GroupMembership
from tubeclient.errors import ConnectError, DataLoss, TransportError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey

_log = logging.getLogger(__name__)


def loss_error(lost: Sequence[Loss], way_out: str = NEW_CHECKPOINT) -> DataLoss:
    """Return the error for losses. If there are several, each is logged with what is lost: the error has not the
    room."""
    for loss in lost if len(lost) > 1 else ():
        _log.error("the query ends because failOnDataLoss is true: %s", loss)
    return data_loss(lost, way_out)


class _Entry(NamedTuple):
    """A partition that entered, before a batch with its messages is planned."""

    at: int
    owed: int
    """From here on messages are surely to be read: what its broker had before may be older than the partition."""


class LossJudge:
    """Judges data that a query should read but does not find; warns of each loss once."""

    def __init__(self, membership: GroupMembership, snapshots: SnapshotCache, options: SourceOptions) -> None:
        self._membership = membership
        self._snapshots = snapshots
        self._reads = options.selector()
        self._fail_on_data_loss = options.fail_on_data_loss
        self._retry_limit_ms = options.retry_limit_ms
        self._warned: dict[object, object] = {}
        """The identity of the last loss by place. No more: a query may lose something in each batch for months."""
        self._away: set[tuple[object, str]] = set()
        """The brokers that were away at the last look, as losses have them."""
        self._entered: dict[PartitionKey, _Entry] = {}
        self._begins: dict[PartitionKey, tuple[int, int]] = {}
        """Of the last batch planned: the partitions of which more had expired since they entered, where they did, and
        where they begin."""

    def still_available(
        self, start: Offsets, snapshot: Snapshot, ends: Mapping[StoreKey, int] | None = None
    ) -> tuple[Snapshot, Offsets]:
        """Return the newest snapshot, and `start` with positions past a broker's end moved back to the end, so that
        later messages are read. Partitions that left the cluster are left out: a later partition of that name is new.
        Partitions of a broker that is away stay, and are read from there when it is back. `ends` are the offsets that
        the query must reach. DataLoss if `failOnDataLoss` says so."""
        snapshot, lost = self._judge(
            lambda now: [
                *self._find_gone(start, now),
                *(loss for loss in find_lost(start, now.bounds, self._reads) if not self._is_older(loss)),
                *find_cut(start, ends or {}, now.bounds, self._reads),
            ],
            snapshot,
        )
        past_end = {loss.partition: loss.found for loss in lost if loss.kind == "tail" and loss.found is not None}
        left = {loss.partition for loss in lost if loss.kind == "gone"}
        now_away = {loss.place for loss in lost if loss.kind == "away"}
        for back in self._away - now_away:
            self._warned.pop(back, None)  # if it goes away again, a new warning follows
            _log.info("broker %s is listed with its topics again", back[0])
        self._away = now_away
        start = start.merge(past_end) if past_end else start
        return snapshot, start.without(left) if left else start

    def planned(self, start: Offsets, end: Offsets, bounds: Mapping[StoreKey, StoreBounds]) -> None:
        """A batch from `start` to `end` was planned; warns of messages that expired since their partition entered."""
        self._begins = {}
        for key, entry in list(self._entered.items()):
            if end.get(key) == entry.at:
                continue
            del self._entered[key]
            if key in end and entry.at < (begin := bounds[key.store].min_offset):
                self._begins[key] = entry.at, begin
                _log.warning(
                    "partition %s was added at %d, but the broker holds it only from %d: at most %d messages expired "
                    "before its first batch, which starts there",
                    *(key, entry.at, begin, (begin - entry.at) // INDEX_ENTRY_BYTES),
                )
        for key in end.keys() - start.keys() if len(end) > len(start) else ():
            at, limits = end[key], bounds[key.store]
            # Elsewhere than at the first offset it enters where it was added.
            self._entered[key] = _Entry(at, limits.max_offset if at == limits.min_offset else at)

    def check_stored(self, initial: Offsets, snapshot: Snapshot, forget: str) -> None:
        """Raise DataLoss, with the advice `forget`, if the brokers no longer hold the kept initial offsets and
        `failOnDataLoss` forbids that. Otherwise later planning judges them as usual."""
        if self._fail_on_data_loss:
            self._judge(
                lambda now: [*self._find_gone(initial, now), *find_lost(initial, now.bounds, self._reads)],
                snapshot,
                forget,
            )

    def check_chosen(self, start: Offsets, snapshot: Snapshot) -> None:
        """As `check_stored`, for a start that nobody has kept yet."""
        if self._fail_on_data_loss:
            way_out = "start at offsets that the brokers hold"
            self._judge(lambda now: find_lost(start, now.bounds, self._reads), snapshot, way_out)

    def readable(self, start: Offsets, end: Offsets, snapshot: Snapshot) -> tuple[Snapshot, Offsets]:
        """Return the newest snapshot, and `start` moved up to where new partitions begin, and to `end` for partitions
        that left the cluster, so that nothing of them is read. DataLoss if `failOnDataLoss` says so."""
        begun = {key: min(to, end.get(key, to)) for key, (at, to) in self._begins.items() if start.get(key) == at}
        start = start.merge(begun) if begun else start
        snapshot, lost = self._judge(
            lambda now: [
                gone(key, at, is_away=now.view.is_away(key))
                for key, at in find_gone(start, now.configured, self._reads)
                if end.get(key, at) != at
            ],
            snapshot,
        )
        return snapshot, start.merge({loss.partition: end[loss.partition] for loss in lost}) if lost else start

    def _is_older(self, loss: Loss) -> bool:
        """Whether it is of messages that may be older than their partition, of which nothing was planned yet."""
        entry = self._entered.get(loss.partition)
        return entry is not None and entry.at == loss.position and loss.found is not None and loss.found <= entry.owed

    def _judge(
        self, find: Callable[[Snapshot], list[Loss]], snapshot: Snapshot, way_out: str = NEW_CHECKPOINT
    ) -> tuple[Snapshot, list[Loss]]:
        """Return the newest snapshot and its accepted losses. A loss counts if an earlier snapshot had it too; it is an
        error, or a warning, once."""
        lost = find(snapshot)
        seen: set[object] = set()
        while new := [
            loss for loss in lost if loss.identity not in seen and self._warned.get(loss.place) != loss.identity
        ]:
            seen.update(loss.identity for loss in new)
            snapshot = self._query_again(new)
            lost = find(snapshot)
        if lost and self._fail_on_data_loss:
            raise loss_error(lost, way_out)
        for loss in lost:
            if self._warned.get(loss.place) != loss.identity:
                self._warned[loss.place] = loss.identity
                _log.warning("failOnDataLoss is false; continuing: %s", loss)
        return snapshot, lost

    def _query_again(self, lost: list[Loss]) -> Snapshot:
        """Query the brokers again. If partitions are missing in the layout, query the master first: the known layout
        may be old. A query reads on without the master, but gives partitions up only if the master confirms."""
        missing = next((loss for loss in lost if loss.kind in ("gone", "away")), None)
        if missing is not None:
            try:
                self._membership.refreshed_view(self._retry_limit_ms)
            except TransportError as error:
                raise ConnectError(
                    f"partition {missing.partition} is missing from the master's last layout, and the master does "
                    f"not answer now to confirm that: {error}. Nothing was skipped; start the query again when the "
                    "master answers, or raise retryLimit",
                    condition="MASTER_UNREACHABLE",
                ) from error
        return self._snapshots.get(fresh=True)

    def _find_gone(self, positions: Offsets, snapshot: Snapshot) -> list[Loss]:
        missing = find_gone(positions, snapshot.configured, self._reads)
        lost = [gone_or_away(key, at, snapshot.view.is_away) for key, at in missing]
        return sorted(lost, key=lambda loss: loss.kind == "away")  # what is gone for good is named first
