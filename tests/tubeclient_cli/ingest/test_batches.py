"""What the job looks at before each batch, and what it writes with it; table and checkpoint are stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from spark_source.offsets.offsets import Offsets
from spark_source.typed.record_format import RecordFormat
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.batch_writer import BatchWriter
from tubeclient_cli.ingest.job import IngestSettings, _Batches
from tubeclient_cli.ingest.sink_check import OtherCluster, RowsWouldBeMissing, UnknownRows
from tubeclient_cli.ingest.sink_history import SinkState, TakenOut
from tubeclient_cli.ingest.sink_record import SinkRecord

A, B, V = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000), PartitionKey(1, "views", 0)
HERE, THERE = ("10.0.0.1:8715",), ("10.9.0.1:8715",)
NO_ROWS: Any = None
NO_SPARK: Any = None


class Table:
    where = "/lake/t"

    def __init__(self, state: SinkState) -> None:
        self.state = state

    def look(self) -> SinkState:
        return self.state

    def append(self, rows: object, record: SinkRecord) -> None:
        self.state = SinkState(record, self.state.sequence + 1)


class Checkpoint:
    """Of query "new"; its batches are planned to end at `ends`, and the running one begins at `start`."""

    def __init__(self, ends: Mapping[int, Offsets], start: Offsets) -> None:
        self.end_of = ends.get
        self._start = start

    def query_id(self) -> str:
        return "new"

    def start_of_running_batch(self) -> Offsets:
        return self._start


def batches(
    table: Any,
    checkpoint: Any,
    known: Mapping[PartitionKey, int] | None = None,
    *,
    may_lose: bool = False,
    **settings: Any,
) -> _Batches:
    needed = {"master_servers": "h:1", "consumer_group": "g", "topics": ("clicks",), "target": "/t", "checkpoint": "/c"}
    job = IngestSettings(**{**needed, **settings})
    writer = BatchWriter(NO_SPARK, job, table, RecordFormat())
    return _Batches(job, HERE, table, writer, checkpoint, Offsets(known or {}), may_lose=may_lose)


def written(
    state: SinkState,
    batch_id: int,
    start: Mapping[PartitionKey, int],
    end: Mapping[PartitionKey, int],
    known: Mapping[PartitionKey, int] | None = None,
    **more: Any,
) -> SinkState:
    """The table's state after the batch."""
    table = Table(state)
    batches(table, Checkpoint({batch_id: Offsets(end)}, Offsets(start)), known, **more).write(NO_ROWS, batch_id)
    return table.state


def held(ends: Mapping[PartitionKey, int], query_id: str = "new", **more: Any) -> SinkState:
    return SinkState(SinkRecord("g", query_id, 0, Offsets(ends), masters=HERE), 1, **more)


def test_a_batch_is_written_with_where_the_groups_rows_end_then() -> None:
    """Partitions that left the cluster leave it; those of topics that are not read stay."""
    state = written(held({A: 28, B: 28, V: 56}), 1, {A: 28, B: 28}, {A: 84})
    assert state.record == SinkRecord("g", "new", 1, Offsets({A: 84, V: 56}), masters=HERE)


def test_a_batch_that_is_in_the_table_is_passed_over() -> None:
    state = held({A: 28})
    assert written(state, 0, {A: 0}, {A: 28}) is state


def test_a_batch_that_the_checkpoint_did_not_plan_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="batch 3 that its own checkpoint does not know"):
        batches(Table(SinkState()), Checkpoint({}, Offsets({}))).write(NO_ROWS, 3)


def test_rows_that_came_from_another_cluster_meanwhile_refuse_the_batch() -> None:
    state = SinkState(SinkRecord("g", "new", 0, Offsets({A: 28}), masters=THERE), 1)
    with pytest.raises(OtherCluster):
        written(state, 1, {A: 28}, {A: 56})
    assert written(state, 1, {A: 28}, {A: 56}, former_masters=THERE[0]).ends == {A: 56}


def test_a_copy_in_the_tables_place_refuses_all_but_a_first_batch() -> None:
    copy = SinkState(is_whole=False, is_copy=True)
    with pytest.raises(UnknownRows, match="is a copy"):
        written(copy, 1, {A: 28}, {A: 56})
    assert written(copy, 0, {A: 28}, {A: 56}).ends == {A: 56}


def test_rows_that_were_removed_meanwhile_stop_a_checkpoint_only_at_its_beginning() -> None:
    state = held({A: 28}, "old", taken_out=TakenOut(9, "DELETE", everything=False))
    with pytest.raises(UnknownRows, match=r"version 9 .*DELETE"):
        written(state, 0, {A: 28}, {A: 56})
    assert written(state, 0, {A: 28}, {A: 56}, starting_offsets="target").ends == {A: 56}
    assert written(state, 1, {A: 28}, {A: 56}).ends == {A: 56}


def test_topics_that_are_begun_anew_are_so_in_the_first_batch_alone() -> None:
    anew = written(held({A: 280}, "old"), 0, {A: 0}, {A: 28}, begin_anew=("clicks",))
    assert anew.ends == {A: 28}
    assert written(anew, 1, {A: 28}, {A: 56}, begin_anew=("clicks",)).ends == {A: 56}


def test_a_query_begins_past_the_rows_by_the_word_group_alone() -> None:
    known = {A: 84}
    for starting_offsets in (None, "earliest"):
        with pytest.raises(RowsWouldBeMissing):
            written(held({A: 28}, "old"), 0, known, {A: 112}, known, starting_offsets=starting_offsets)
    assert written(held({A: 28}, "old"), 0, known, {A: 112}, known, starting_offsets="group").ends == {A: 112}


def test_a_query_whose_partitions_all_waited_for_their_brokers_goes_on_when_they_are_heard() -> None:
    """The batch begins with no offset at all."""
    assert written(held({}), 1, {}, {A: 280}).ends == {A: 280}


def test_partitions_enter_past_the_rows_where_loss_is_accepted() -> None:
    with pytest.raises(RowsWouldBeMissing):
        written(held({A: 28}), 1, {}, {A: 84})
    assert written(held({A: 28}), 1, {}, {A: 84}, may_lose=True).ends == {A: 84}
