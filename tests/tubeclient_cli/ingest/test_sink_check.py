"""Batches that would write rows again, or leave some out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.sink_check import (
    Batch,
    OtherCluster,
    RowsWouldBeMissing,
    RowsWouldRepeat,
    UnknownRows,
    check_batch,
    check_beginning,
    check_cluster,
    check_going_on,
    trusted,
)
from tubeclient_cli.ingest.sink_history import SinkState, TakenOut
from tubeclient_cli.ingest.sink_record import SinkRecord

A, B, C = (PartitionKey(1, "clicks", number) for number in (0, 10_000, 20_000))
RECORD = SinkRecord("g", "query-1", 7, Offsets({A: 280, B: 560}))
STATE = SinkState(RECORD, 12)
CUT, COPY = SinkState(is_whole=False), SinkState(is_whole=False, is_copy=True)

Positions = dict[PartitionKey, int]


def batch(query_id: str, batch_id: int, start: Positions, end: Positions) -> Batch:
    return Batch(query_id, batch_id, start, end)


def test_a_batch_that_goes_on_where_the_table_ends_is_written() -> None:
    assert check_batch(STATE, batch("query-2", 0, {A: 280, B: 560}, {A: 308, B: 560}))
    assert check_batch(STATE, batch("query-1", 8, {A: 280, B: 560}, {A: 308, B: 560}))
    assert check_batch(SinkState(), batch("query-2", 0, {}, {A: 28}))
    # A topic that is no longer read, and a partition that is new.
    assert check_batch(STATE, batch("query-2", 0, {A: 280, C: 0}, {A: 308, C: 28}))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ({A: 280, B: 532}, {A: 308, B: 560}),
        # Planned before the table went on: it ends before the table, so where it began does not help.
        ({A: 280, B: 560}, {A: 308, B: 532}),
        # A partition that enters is read from its beginning in the next batch.
        ({A: 280}, {A: 308, B: 0}),
    ],
)
def test_a_batch_before_the_tables_end_is_refused(start: Positions, end: Positions) -> None:
    with pytest.raises(RowsWouldRepeat, match=r"1:clicks:10000 .* the table ends at 560\. Start with a new checkpoint"):
        check_batch(STATE, batch("query-2", 0, start, end))


@pytest.mark.parametrize("query_id", ["query-1", "query-2"])
def test_a_batch_past_the_tables_end_is_refused(query_id: str) -> None:
    with pytest.raises(RowsWouldBeMissing, match=r"1:clicks:10000 would be read from 588, and the table ends at 560"):
        check_batch(STATE, batch(query_id, 8, {A: 280, B: 588}, {A: 308, B: 616}))
    with pytest.raises(RowsWouldBeMissing, match="1:clicks:10000 would be read from 588"):
        check_batch(STATE, batch(query_id, 8, {A: 280}, {A: 308, B: 588}))


def test_past_the_tables_end_is_where_the_user_wants_to_begin_or_where_the_brokers_data_does() -> None:
    beyond = batch("query-2", 0, {A: 280, B: 588}, {A: 308, B: 616})
    assert check_batch(STATE, beyond, {A: 280, B: 588}, skips=True)
    for known, skips in (({A: 280, B: 616}, True), ({A: 280, B: 588}, False)):
        with pytest.raises(RowsWouldBeMissing):
            check_batch(STATE, beyond, known, skips=skips)
    entering = batch("query-1", 8, {A: 280}, {A: 308, B: 588})
    assert check_batch(STATE, entering, may_lose=True)
    # Losing what the brokers have no more is not losing what the table had.
    with pytest.raises(RowsWouldBeMissing):
        check_batch(STATE, beyond, may_lose=True)


def test_a_batch_that_is_in_the_table_is_passed_over() -> None:
    assert not check_batch(STATE, batch("query-1", 7, {A: 0, B: 0}, {A: 280, B: 560}))
    assert not check_batch(STATE, batch("query-1", 3, {A: 0, B: 0}, {A: 28, B: 28}))


@pytest.mark.parametrize("batch_id", [7, 5])
def test_a_checkpoint_that_was_put_back_is_refused_where_its_batch_would_be_passed_over(batch_id: int) -> None:
    for end in ({A: 280, B: 588}, {A: 280, B: 560, C: 0}):
        with pytest.raises(
            RowsWouldRepeat, match=r"the table already has another batch .* Start with a new checkpoint"
        ):
            check_batch(STATE, batch("query-1", batch_id, {A: 0, B: 0}, end))


def test_a_checkpoint_that_was_put_back_is_refused_where_it_would_repeat_rows() -> None:
    with pytest.raises(RowsWouldRepeat, match=r"1:clicks:10000 would be read from 532 to 588, .* ends at 560"):
        check_batch(STATE, batch("query-1", 8, {A: 280, B: 532}, {A: 280, B: 588}))


def test_a_query_may_go_back_to_the_end_of_a_brokers_data() -> None:
    """After a loss that was accepted; see failOnDataLoss."""
    assert check_batch(STATE, batch("query-1", 8, {A: 280, B: 560}, {A: 280, B: 56}))


def test_a_later_batch_for_a_table_that_has_nothing_of_the_group_is_refused() -> None:
    later = batch("query-1", 3, {A: 84}, {A: 112})
    with pytest.raises(RowsWouldBeMissing, match=r"batch 3 .* is not its first, and the table has none"):
        check_batch(SinkState(), later)
    # Where nobody knows, the checkpoint is believed; not with a copy, which it never wrote to.
    assert check_batch(CUT, later, {A: 56})
    assert check_batch(COPY, batch("query-2", 0, {A: 84}, {A: 112}))
    with pytest.raises(
        UnknownRows, match=r"batch 3 .* the table is a copy of another table, .* --starting-offsets with offsets"
    ):
        check_batch(COPY, later)


@pytest.mark.parametrize("query_id", ["query-1", "query-2"])
def test_a_batch_that_goes_on_in_partitions_of_which_the_table_has_nothing_is_refused(query_id: str) -> None:
    """One checkpoint with one target, then another, then the first: what is the same in both does not help."""
    with pytest.raises(RowsWouldBeMissing, match=r"continues at 28 in 1:clicks:20000, and the table has no rows of"):
        check_batch(STATE, batch(query_id, 8, {A: 280, B: 560, C: 28}, {A: 308, B: 560, C: 28}))
    # Where it is about to enter, where it is gone, and where a new checkpoint begins, nothing was read before.
    assert check_batch(STATE, batch(query_id, 8, {A: 280, B: 560}, {A: 308, B: 560, C: 28}))
    assert check_batch(STATE, batch(query_id, 8, {A: 280, B: 560, C: 28}, {A: 308, B: 560}))
    assert check_batch(STATE, batch("query-2", 0, {A: 280, B: 560, C: 28}, {A: 308, B: 560, C: 28}))


@pytest.mark.parametrize("state", [SinkState(), CUT])
def test_a_first_batch_that_begins_past_where_its_run_is_to_is_refused(state: SinkState) -> None:
    known = {A: 280, B: 560}
    for start, end in (({A: 280, B: 588}, {A: 308, B: 616}), ({A: 280}, {A: 308, B: 588})):
        first = batch("query-2", 0, start, end)
        with pytest.raises(RowsWouldBeMissing, match=r"1:clicks:10000 would be read from 588 instead of 560, and"):
            check_batch(state, first, known)
        assert check_batch(state, first, known, may_lose=True)
    assert check_batch(state, batch("query-2", 0, {A: 280, B: 560, C: 28}, {A: 308, B: 560, C: 56}), known)


def test_where_the_brokers_end_before_the_rows_the_way_out_is_told() -> None:
    """A topic that was made anew, and a new checkpoint with failOnDataLoss=false: its first batch only goes back."""
    back = batch("query-2", 0, {A: 280, B: 560}, {A: 28, B: 56})
    with pytest.raises(
        RowsWouldRepeat, match="deleted and created again, give --begin-anew TOPIC with a new checkpoint"
    ):
        check_batch(STATE, back, may_lose=True)
    anew = STATE.without_topics(["clicks"], "query-2")
    assert check_batch(anew, batch("query-2", 0, {A: 0, B: 0}, {A: 28, B: 56}))
    # An older checkpoint stands where the old topic was.
    with pytest.raises(RowsWouldBeMissing):
        check_batch(anew, batch("query-2", 3, {A: 280, B: 560}, {A: 28, B: 56}))


@pytest.mark.parametrize("chosen", [None, "target", "earliest", "latest", "2026-11-21T10:31Z"])
def test_where_rows_end_that_nobody_knows_is_for_the_user_to_say(chosen: str | None) -> None:
    for state, words, in_offsets_table in (
        (CUT, "its history does not say", False),
        (COPY, "is a copy", False),
        # The group may have gone on in the first table, and the copy does not have that.
        (COPY, "is a copy", True),
    ):
        with pytest.raises(UnknownRows, match=rf"^/lake/t .*{words}.* --starting-offsets"):
            check_beginning(state, "/lake/t", "g", chosen, in_offsets_table=in_offsets_table)
    if chosen in (None, "target"):
        check_beginning(CUT, "/lake/t", "g", chosen, in_offsets_table=True)


@pytest.mark.parametrize("state", [CUT, COPY])
def test_where_rows_end_is_what_the_user_says_or_the_table(state: SinkState) -> None:
    for chosen in ("group", '{"1:clicks:0": 280}'):
        check_beginning(state, "/lake/t", "g", chosen, in_offsets_table=False)
    for known in (STATE, SinkState(), SinkState(RECORD, is_whole=False)):
        check_beginning(known, "/lake/t", "g", None, in_offsets_table=False)


EAST = ("10.0.0.1:8715", "10.0.0.2:8715")
FROM_EAST = SinkState(SinkRecord("g", "query-1", 7, Offsets({A: 280}), masters=EAST), 12)


def test_rows_of_a_cluster_that_shares_no_master_are_refused() -> None:
    with pytest.raises(
        OtherCluster,
        match=r"group g in /lake/t come .* 10\.0\.0\.1:8715,10\.0\.0\.2:8715, .* --former-masters 10\.0\.0\.1:8715,10",
    ):
        check_cluster(FROM_EAST, "/lake/t", ("10.9.0.1:8715",))
    with pytest.raises(OtherCluster):
        check_cluster(FROM_EAST, "/lake/t", ("10.9.0.1:8715",), ("10.8.0.1:8715",))


def test_a_cluster_whose_masters_come_and_go_is_the_same_one() -> None:
    for masters, former in ((EAST, ()), (("10.9.0.1:8715", EAST[1]), ()), (("10.9.0.1:8715",), (EAST[0],))):
        check_cluster(FROM_EAST, "/lake/t", masters, former)
    # Who wrote the rows did not say.
    check_cluster(STATE, "/lake/t", ("10.9.0.1:8715",))
    check_cluster(SinkState(), "/lake/t", ("10.9.0.1:8715",))


positions = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 20).map(lambda n: n * 28), min_size=1)


@given(positions, positions, positions, st.sampled_from(["query-1", "query-2"]), st.integers(6, 9))
def test_what_is_written_begins_where_the_rows_end(
    held: Positions, start: Positions, end: Positions, query_id: str, batch_id: int
) -> None:
    state = SinkState(SinkRecord("g", "query-1", 7, Offsets.of(held)), 12)
    try:
        written = check_batch(state, batch(query_id, batch_id, start, end))
    except (RowsWouldRepeat, RowsWouldBeMissing):
        return
    if written:
        assert all(start[p] == at for p, at in held.items() if p in start)
    else:
        assert all(at <= held[p] for p, at in end.items())


SOME, ALL = TakenOut(9, "DELETE", everything=False), TakenOut(9, "TRUNCATE", everything=True)


@pytest.mark.parametrize("taken", [SOME, ALL])
def test_rows_that_were_taken_out_are_for_the_user_to_judge(taken: TakenOut) -> None:
    state = SinkState(RECORD, 12, taken)
    for chosen in (None, "earliest", "group", "2026-11-21T10:31Z"):
        with pytest.raises(
            UnknownRows, match=rf"version 9 of /lake/t \({taken.operation}\) .* --starting-offsets target"
        ):
            trusted(state, "/lake/t", "g", chosen, goes_on=False)
    assert trusted(state, "/lake/t", "g", "target", goes_on=False) == STATE
    assert trusted(state, "/lake/t", "g", '{"default": "earliest"}', goes_on=False) == SinkState(
        None, 12, is_whole=False
    )


def test_a_checkpoint_goes_on_after_a_delete_of_some_rows_but_not_of_all() -> None:
    assert trusted(SinkState(RECORD, 12, SOME), "/lake/t", "g", None, goes_on=True) == STATE
    for chosen in (None, '{"default": "earliest"}'):
        with pytest.raises(UnknownRows, match="TRUNCATE"):
            trusted(SinkState(RECORD, 12, ALL), "/lake/t", "g", chosen, goes_on=True)
    assert trusted(SinkState(RECORD, 12, ALL), "/lake/t", "g", "target", goes_on=True) == STATE


def test_a_table_that_nobody_took_rows_from_is_believed() -> None:
    assert trusted(STATE, "/lake/t", "g", '{"default": "earliest"}', goes_on=False) == STATE


def test_a_checkpoint_that_the_offsets_table_is_past_is_outdated_where_the_history_is_cut() -> None:
    for state in (STATE, SinkState(), COPY):
        check_going_on(state, "/lake/t", "g", {A: 28, B: 28}, {A: 56, B: 28})
    check_going_on(CUT, "/lake/t", "g", {A: 28, B: 28}, {A: 28})
    check_going_on(CUT, "/lake/t", "g", {B: 28}, {A: 28})
    with pytest.raises(UnknownRows, match=r"its last batch ends at 28 in 1:clicks:0, .* has group g at 56 there \(1 "):
        check_going_on(CUT, "/lake/t", "g", {A: 28, B: 28}, {A: 56, B: 28})
