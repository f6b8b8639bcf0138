"""Rounds of a query's progress, and how a query is stopped between two batches; the query is a stand-in."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tubeclient_cli.common.watch import Watch
from tubeclient_ingest.progress import IngestSummary, Round

SOURCE = {
    "latestOffset": {"1:clicks:0": {"0-1": 2800}, "1:clicks:1": {"10000": 280}, "version": 1},
    "endOffset": {"1:clicks:0": {"0-1": 1400}, "1:clicks:1": {"10000": 280}, "version": 1},
}


def batch(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": "2026-03-04T05:06:07.500Z",
        "batchId": number,
        "batchDuration": 2_000,
        "durationMs": {"addBatch": 1_500},
        "numInputRows": 30,
        "sources": [SOURCE],
        **changes,
    }


class Query:
    """One that has something new to say at each look, and ends by itself after the last."""

    def __init__(self, *told: dict[str, Any]) -> None:
        self._told = told
        self._looks = 0
        self.stopped_after: int | None = None
        self.status = {"isTriggerActive": False, "isDataAvailable": False}

    @property
    def isActive(self) -> bool:
        return self.stopped_after is None and self._looks < len(self._told)

    @property
    def recentProgress(self) -> list[Any]:
        return [SimpleNamespace(json=json.dumps(one)) for one in self._told[: self._looks]]

    def awaitTermination(self, _: float) -> bool:
        self._looks += 1
        return not self.isActive

    def stop(self) -> None:
        self.stopped_after = self._looks


def watched(query: Any, stop: threading.Event | None = None) -> tuple[list[Round], IngestSummary]:
    rounds: list[Round] = []
    summary = Watch(query, rounds.append, stop or threading.Event(), 60.0).until_end()
    return rounds, summary


def test_a_round_is_made_of_sparks_progress() -> None:
    rounds, summary = watched(Query(batch(3), batch(4, numInputRows=10, sources=[{**SOURCE, "latestOffset": None}])))
    assert rounds[0] == Round(
        time="2026-03-04T05:06:09.500+00:00",
        sequence=3,
        rows=30,
        total_rows=30,
        seconds=2.0,
        rows_per_second=15.0,
        rows_behind=50,
    )
    assert [(one.sequence, one.rows, one.total_rows) for one in rounds] == [(3, 30, 30), (4, 10, 40)]
    assert (summary.rows, summary.rounds, summary.rows_behind, summary.stopped) == (40, 2, 50, False)


def test_a_look_without_a_batch_is_no_round_and_says_what_is_left() -> None:
    idle = {"durationMs": {"latestOffset": 1}, "sources": [{**SOURCE, "endOffset": SOURCE["latestOffset"]}]}
    rounds, summary = watched(Query(batch(3), batch(4, **idle)))
    assert [one.sequence for one in rounds] == [3]
    assert summary.rows_behind == 0


def test_rows_behind_is_unknown_where_the_source_does_not_say() -> None:
    [only], summary = watched(Query(batch(3, sources=[{**SOURCE, "latestOffset": None}])))
    assert only.rows_behind is summary.rows_behind is None


@pytest.mark.parametrize(("runs", "stopped_after"), [(False, 1), (True, 2)])
def test_a_query_is_stopped_between_two_batches(runs: bool, stopped_after: int) -> None:
    query, stop = Query(*map(batch, range(5))), threading.Event()
    query.status["isTriggerActive"] = runs
    stop.set()
    rounds, summary = watched(query, stop)
    assert (query.stopped_after, len(rounds), summary.stopped) == (stopped_after, stopped_after, True)
