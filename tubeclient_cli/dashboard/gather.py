"""All looks of a dashboard, put together as facts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from offsets_store import OffsetsTable
from offsets_store.errors import display_uri, scrub
from spark_source.options.table_uris import limited
from tubeclient_cli.dashboard.cluster_look import ClusterLook
from tubeclient_cli.dashboard.facts import (
    TABLE,
    BadRecordFacts,
    ClusterFacts,
    Facts,
    GroupFacts,
    ReasonFacts,
    Waits,
    waits_of,
)
from tubeclient_cli.dashboard.looks import Look
from tubeclient_cli.dashboard.table_look import TableLook

if TYPE_CHECKING:
    from tubeclient.settings import ClientSettings

__all__ = ["LOOK_DEADLINE_S", "Gatherer"]

LOOK_DEADLINE_S: Final = 10.0
"""A look that takes longer is reported as one that does not answer."""

_BAD_RECORDS_PERIOD_S: Final = 30.0


class Gatherer:
    """Looks at the table, at the cluster unless `settings` is None, and at the bad records unless `bad_records` is
    None, at most every `period_s`. Each look at the table reads old commits for `history_s`. Thread-safe."""

    def __init__(
        self,
        offsets_table: str,
        storage_options: Mapping[str, str],
        settings: ClientSettings | None,
        *,
        groups: Sequence[str] = (),
        bad_records: str | None = None,
        most_commits: int = 200,
        history_s: float,
        period_s: float = 5.0,
        deadline_s: float = LOOK_DEADLINE_S,
    ) -> None:
        self._storage_options = storage_options
        self._waits: Waits = {}
        table = OffsetsTable(offsets_table, limited(offsets_table, storage_options))
        self.table: Look[tuple[GroupFacts, ...]] = Look(
            TABLE,
            display_uri(offsets_table),
            TableLook(table, groups, most_commits=most_commits, history_s=history_s),
            self._explain,
            period_s=period_s,
            deadline_s=deadline_s,
        )
        self.cluster: Look[ClusterFacts] | None = None
        if settings is not None:
            self.cluster = Look(
                "cluster",
                ", ".join(settings.master_servers),
                ClusterLook(settings, self._groups),
                self._explain,
                period_s=period_s,
                deadline_s=deadline_s,
            )
        self.bad_records: Look[BadRecordFacts] | None = None
        if bad_records is not None:
            self.bad_records = Look(
                "bad records",
                display_uri(bad_records),
                lambda: self._read_bad_records(bad_records),
                self._explain,
                period_s=max(period_s, _BAD_RECORDS_PERIOD_S),
                deadline_s=deadline_s,
            )

    def facts(self, wait_s: float) -> Facts:
        """What is known now; begins the looks that are due, and waits for them at most `wait_s`."""
        looks = [look for look in (self.table, self.cluster, self.bad_records) if look is not None]
        for look in looks:
            look.begin()
        until = time.monotonic() + wait_s
        for look in looks:
            look.wait(until - time.monotonic())
        now_ms = time.time_ns() // 1_000_000
        groups = self.table.answer
        cluster = None if self.cluster is None else self.cluster.answer
        self._waits = waits = waits_of(self._waits, groups or (), cluster, now_ms)
        bad_records = None if self.bad_records is None else self.bad_records.answer
        return Facts(now_ms, tuple(look.source for look in looks), groups, cluster, bad_records, waits)

    def _groups(self) -> set[str] | None:
        groups = self.table.answer
        return None if groups is None else {group.progress.group.consumer_group for group in groups}

    def _read_bad_records(self, uri: str) -> BadRecordFacts:
        from tubeclient_cli.bad_records.table import Choice, read_bad_records

        found = read_bad_records(uri, self._storage_options, Choice(), 1)
        reasons = tuple(
            ReasonFacts(
                each.consumer_group, each.state, each.reason, each.records, round(each.newest.timestamp() * 1000)
            )
            for each in found.reasons
        )
        return BadRecordFacts(found.records, reasons)

    def _explain(self, error: Exception) -> str:
        """For the page: on one line, without values of storage options."""
        return scrub(str(error) or type(error).__name__, self._storage_options)
