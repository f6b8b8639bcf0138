"""Several consumers of a group share a run: each moves its own partitions on, and a take-over stops them all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsets_store import OffsetsTable, PartitionProgress, SupersededRun
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tubeclient.keys import PartitionKey

Open = Callable[[], OffsetsTable]


def positions(table: OffsetsTable) -> dict[PartitionKey, int]:
    return table.positions("clicks_etl", ["clicks"])


def test_each_consumer_moves_its_own_partitions_only(open_table: Open, clock: Clock) -> None:
    open_table().open_run(KEY, 1).record(at({FIRST: 28, SECOND: 28}))
    one, other = open_table().share_run(KEY, 2), open_table().share_run(KEY, 2)
    clock.now += 1_000
    assert one.record([PartitionProgress(FIRST, 280, 560, 0)]) is True
    clock.now += 1_000
    assert other.record([PartitionProgress(SECOND, 56, 560, 1)]) is True
    assert one.record([PartitionProgress(FIRST, 308, 560, 0)]) is True
    found = open_table().latest(KEY)
    assert found is not None
    assert found.partitions == (PartitionProgress(FIRST, 308, 560, 0), PartitionProgress(SECOND, 56, 560, 1))
    assert (found.sequence, found.source_count, found.updated_at.timestamp()) == (4, 2, clock.now / 1000)


def test_a_partition_is_never_moved_back(open_table: Open) -> None:
    """What a consumer says that does not know yet that it lost the partition."""
    late, successor = open_table().share_run(KEY, 2), open_table().share_run(KEY, 2)
    late.record(at({FIRST: 28}))
    successor.record(at({FIRST: 280}))
    assert late.record(at({FIRST: 56})) is False
    assert late.record(at({FIRST: 280})) is False
    assert late.record(at({FIRST: 56, SECOND: 84})) is True
    assert positions(open_table()) == {FIRST: 280, SECOND: 84}


def test_a_partition_goes_back_where_its_reader_went_on_from_there(open_table: Open) -> None:
    """It accepted that messages are lost; another reader's word of the same says nothing once the table has moved."""
    reader = open_table().share_run(KEY, 2)
    reader.record(at({FIRST: 2800}))
    assert reader.record([PartitionProgress(FIRST, 224, start_offset=2772)]) is False
    assert reader.record([PartitionProgress(FIRST, 224, start_offset=2800)]) is True
    assert reader.record([PartitionProgress(FIRST, 56, start_offset=2800)]) is False
    assert positions(open_table()) == {FIRST: 224}


def test_a_take_over_stops_every_consumer_and_those_that_come_later_go_on(open_table: Open, clock: Clock) -> None:
    one, other = open_table().share_run(KEY, 2), open_table().share_run(KEY, 2)
    one.record(at({FIRST: 280}))
    other.record(at({SECOND: 280}))
    clock.now += 60_000
    taken = open_table().open_run(KEY, 1)
    taken.record(at({FIRST: 28, SECOND: 28}))
    for run, partition in ((one, FIRST), (other, SECOND)):
        with pytest.raises(SupersededRun, match=f"epoch {taken.epoch}"):
            run.record(at({partition: 560}))
    assert positions(open_table()) == {FIRST: 28, SECOND: 28}
    assert open_table().share_run(KEY, 2).record(at({FIRST: 56})) is True


def test_a_query_of_the_shared_epoch_that_still_runs_stops(open_table: Open) -> None:
    query = open_table().open_run(KEY, 1)
    query.record(at({FIRST: 28}))
    open_table().share_run(KEY, 1).record(at({FIRST: 56}))
    with pytest.raises(SupersededRun):
        query.record(at({FIRST: 84}))


def test_consumers_of_a_new_group_share_the_epoch_of_whichever_writes_first(open_table: Open, clock: Clock) -> None:
    one = open_table().share_run(KEY, 2)
    clock.now += 1_000
    other = open_table().share_run(KEY, 2)
    other.record(at({SECOND: 28}))
    assert one.record(at({FIRST: 28})) is True
    assert one.epoch == other.epoch
    assert other.record(at({SECOND: 56})) is True
    # From its first commit on, a consumer follows nobody else.
    clock.now += 60_000
    open_table().open_run(KEY, 1).record(at({FIRST: 0}))
    with pytest.raises(SupersededRun):
        other.record(at({SECOND: 84}))


def test_the_kept_beginning_of_a_query_goes_with_the_first_record(open_table: Open) -> None:
    open_table().open_run(KEY, 1).keep_initial("group", {FIRST: 28})
    open_table().share_run(KEY, 1).record(at({FIRST: 56}))
    assert open_table().open_run(KEY, 1, force=True).initial_offsets("group") is None
