"""What a table's history says of a group, whatever others did to the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.history import Commit, Harm, SinkState, TakenOut, state_of
from tubeclient_ingest.commits.record import SinkRecord

A, V = PartitionKey(1, "clicks", 0), PartitionKey(1, "views", 0)
B, W = PartitionKey(2, "clicks", 0), PartitionKey(2, "views", 0)


def ours(version: int, *, group: str = "g", based_on: int | None = None, ends: Offsets | None = None) -> Commit:
    """A commit of the job, number `version` + 1 of the group, on top of the version before it or of `based_on`."""
    base = version - 1 if based_on is None else based_on
    record = SinkRecord(group, "r", ends or Offsets({A: 28 * version}), version + 1, base, table_id="id")
    return Commit(version, "WRITE", {"mode": "Append"}, {}, record, removes=False)


def by_others(
    version: int, operation: str, metrics: dict[str, str | None] | None = None, /, **parameters: str
) -> Commit:
    """One that removed files with data."""
    return Commit(version, operation, parameters, metrics or {}, None)


def kept(version: int, operation: str, **parameters: str) -> Commit:
    """One that removed no data."""
    return by_others(version, operation, **parameters)._replace(removes=False)


def state(*oldest_first: Commit) -> SinkState:
    return state_of(oldest_first[::-1], "g", "id")


def record_of(commit: Commit) -> SinkRecord | None:
    return commit.record


CREATED = kept(0, "CREATE TABLE")


def test_newest_commit_of_the_group() -> None:
    """The group's newest commit says where its rows end, whatever other groups commit."""
    assert state(CREATED, ours(1), ours(2), ours(3, group="h")) == SinkState(record_of(ours(2)), 3)
    assert state(CREATED, ours(1, group="h")) == SinkState()
    assert state() == SinkState()


def test_rows_of_others_alone_may_be_a_copy() -> None:
    added = kept(1, "WRITE")
    selected = kept(0, "CREATE OR REPLACE TABLE AS SELECT")
    back = by_others(3, "RESTORE", version="1")
    for found, *commits in (
        (True, CREATED, added),
        (True, selected),
        (True, CREATED, added, kept(2, "OPTIMIZE")),
        (True, CREATED, added, ours(2), back),
        (True, CREATED, added, by_others(2, "RESTORE", version="0"), kept(3, "WRITE")),
        (False, CREATED, added, by_others(2, "RESTORE", version="0")),
        (False, CREATED, kept(1, "WRITE")._replace(metrics={"numOutputRows": "0"})),
        (False, CREATED),
        (False, CREATED, kept(1, "SET TBLPROPERTIES")),
        (False, CREATED, ours(1, group="h")),  # another group's job
        (False, CREATED, ours(1), kept(2, "WRITE")),
        (False, CREATED, kept(1, "SET TBLPROPERTIES"), ours(2), back),
    ):
        assert state(*commits).only_others_wrote == found, commits


@pytest.mark.parametrize(
    "commit",
    [
        *(kept(3, name) for name in ("OPTIMIZE", "VACUUM END", "Empty Commit", "TRUNCATE", "something new")),
        kept(3, "DELETE", predicate='["(a = 1)"]'),
        kept(3, "WRITE", mode="Overwrite"),
        kept(3, "MERGE"),
        by_others(3, "WRITE", mode="Append"),
        by_others(3, "STREAMING UPDATE", outputMode="Append"),
        by_others(3, "UPDATE", predicate='["(a = 1)"]'),
        by_others(3, "MERGE", {"numTargetRowsDeleted": "0"}),
    ],
    ids=lambda commit: commit.operation,
)
def test_operations_that_leave_the_rows(commit: Commit) -> None:
    """Operations by others change nothing if they leave the group's rows in the table."""
    assert state(CREATED, ours(1), ours(2), commit) == SinkState(record_of(ours(2)), 3)


@pytest.mark.parametrize(
    ("commit", "everything"),
    [
        (by_others(3, "DELETE", {"numDeletedRows": "2"}, predicate='["(a = 1)"]'), False),
        (by_others(3, "DELETE", {"numDeletedRows": "2"}, predicate='["true"]'), True),
        (by_others(3, "DELETE"), True),
        (by_others(3, "MERGE", {"numTargetRowsDeleted": "1"}), False),
        (by_others(3, "MERGE"), False),
        (by_others(3, "WRITE", {"numRemovedFiles": "3"}, mode="Overwrite"), True),
        (by_others(3, "WRITE", mode="Overwrite", predicate="day = 1"), False),
        (by_others(3, "WRITE", mode="Overwrite", isDynamicPartitionOverwrite="true"), False),
        (by_others(3, "STREAMING UPDATE", outputMode="Complete"), True),
        (by_others(3, "TRUNCATE"), True),
        (by_others(3, "CREATE OR REPLACE TABLE"), True),
        (by_others(3, "something new"), True),
        (by_others(3, "RESTORE", timestamp="2026-11-22 23:08:58"), True),
    ],
    ids=lambda value: value.operation if isinstance(value, Commit) else "",
)
def test_what_takes_rows_out_is_told(commit: Commit, everything: bool) -> None:
    taken = TakenOut(3, commit.operation, everything)
    assert state(CREATED, ours(1), ours(2), commit) == SinkState(record_of(ours(2)), 3, taken)
    # Not once the group has written after it, and not where it never had before.
    later = ours(4, based_on=3)
    assert state(CREATED, ours(1), ours(2), commit, later) == SinkState(record_of(later), 5)
    assert state(CREATED, ours(1, group="h"), commit._replace(version=2)) == SinkState()


def test_of_several_the_one_that_took_most_is_told() -> None:
    some, everything = by_others(3, "DELETE", predicate="a = 1"), by_others(2, "TRUNCATE")
    assert state(CREATED, ours(1), everything, some).taken_out == TakenOut(2, "TRUNCATE", everything=True)


def test_harm_between_base_version_and_commit() -> None:
    """The state reports a TRUNCATE or RESTORE between a commit and the version it is based on."""
    for commit in (by_others(3, "TRUNCATE"), by_others(3, "RESTORE", version="1")):
        found = state(CREATED, ours(1), ours(2), commit, ours(4, based_on=2))
        assert found.taken_out == TakenOut(3, commit.operation, everything=True)
    # Of which more has to be read than there is here.
    assert not state_of([ours(4, based_on=2)], "g").is_whole
    assert state_of([ours(4, based_on=3)], "g").is_whole


def test_restore_goes_back_to_what_that_version_said() -> None:
    history = [CREATED, *(ours(version) for version in (1, 2, 3, 4))]
    found = state(*history, by_others(5, "RESTORE", version="2"))
    assert found == SinkState(record_of(ours(2)), 5, undone=record_of(ours(4)))
    # What was done to the table in what is undone is undone as well.
    undone = by_others(4, "TRUNCATE")
    assert state(*history[:4], undone, by_others(5, "RESTORE", version="3")) == SinkState(record_of(ours(3)), 4)
    # And what was done afterwards, or is put back in turn.
    deleted = by_others(6, "DELETE", predicate="a = 1")
    found = state(*history, by_others(5, "RESTORE", version="2"), deleted)
    assert (found.record, found.taken_out) == (record_of(ours(2)), TakenOut(6, "DELETE", everything=False))
    twice = state(*history, by_others(5, "RESTORE", version="1"), by_others(6, "RESTORE", version="5"))
    assert (twice.record, twice.sequence) == (record_of(ours(1)), 5)
    assert state(*history, by_others(5, "RESTORE", version="1"), by_others(6, "RESTORE", version="4")).record == (
        record_of(ours(4))
    )


def test_offsets_of_before_a_reset_are_stale() -> None:
    """The topic may have been deleted and created again: then an earlier version ends among other messages."""

    def after_reset(version: int, resets: int = 1) -> Commit:
        commit = ours(version)
        assert commit.record is not None
        return commit._replace(record=replace(commit.record, resets={A.topic: resets}))

    def back(version: int, to: int) -> Commit:
        return by_others(version, "RESTORE", version=str(to))

    history = [CREATED, ours(1), ours(2)]
    stale: list[list[Commit]] = [
        [after_reset(3), back(4, 2)],
        [after_reset(3), back(4, 2), back(5, 1)],
        [back(3, 1), after_reset(4), back(5, 1)],
        [after_reset(3), after_reset(4, 2), back(5, 3)],
    ]
    right: list[list[Commit]] = [
        [],
        [after_reset(3)],
        [after_reset(3), after_reset(4), back(5, 3)],
        [after_reset(3), back(4, 2), after_reset(5)],  # the user took it
        [after_reset(3), back(4, 0)],
    ]
    for commits in (*stale, *right):
        known = state(*history, *commits)
        assert known.stale(known.resets) == [A.topic] * (commits in stale), commits
    began_anew = state(*history).without_topics([A.topic])
    assert (began_anew.resets, began_anew.stale(began_anew.resets)) == ({A.topic: 1}, [])
    assert state(*history).stale({A.topic: 1, "another": 2}) == [A.topic]


def test_restore_to_before_the_first_commit() -> None:
    """After a RESTORE to before its first commit, a group has no record, but its numbers go on."""
    found = state(CREATED, ours(1), ours(2), by_others(3, "RESTORE", version="0"))
    assert found == SinkState(None, 3, None, undone=record_of(ours(2)))


def test_optimize_that_repeats_metadata() -> None:
    """An OPTIMIZE that repeats a commit's userMetadata is no commit of the group."""
    at = datetime(2026, 11, 28, tzinfo=UTC)
    text = SinkRecord("g", "r", Offsets({A: 28}), 1).to_json()
    entry = {"version": 1, "userMetadata": text, "timestamp": at, "isBlindAppend": False}
    found = {name: Commit.of({**entry, "operation": name}, "t").record for name in ("MERGE", "WRITE", "OPTIMIZE")}
    assert [name for name, record in found.items() if record is not None] == ["MERGE", "WRITE"]


def test_a_commit_is_what_its_entry_says() -> None:
    at, text = datetime(2026, 11, 28, tzinfo=UTC), SinkRecord("g", "r", Offsets({A: 28}), 1).to_json()
    entry = {"version": 1, "operation": "WRITE", "userMetadata": text, "timestamp": at, "isBlindAppend": True}
    commit = Commit.of({**entry, "operationParameters": {"mode": "A"}, "operationMetrics": {"numOutputRows": "3"}}, "t")
    record = SinkRecord.parse(text)
    assert commit == Commit(1, "WRITE", {"mode": "A"}, {"numOutputRows": "3"}, record, removes=False, written=at)
    found = state_of([commit], "g")
    assert (found.rows, found.written, found.version, found.run_of) == (3, at, 1, {1: "r"})
    # Of a commit that says nothing of itself only its files are known.
    untold = dict.fromkeys(("operation", "operationParameters", "operationMetrics", "userMetadata", "isBlindAppend"))
    silent = Commit.of({**untold, "version": 2, "timestamp": at}, "t")
    assert silent == Commit(2, "", {}, {}, None, removes=True, written=at)
    assert state_of([silent, commit], "g").taken_out == TakenOut(2, "", everything=True)


def test_numbers_beyond_a_cut_history() -> None:
    """A commit does not call numbers undone that a truncated history no longer shows."""
    cut = SinkState(None, 7, is_whole=False, version=30)
    first = cut.numbered(SinkRecord("g", "r", Offsets({})))
    assert (first.sequence, first.based_on, first.undone, first.known_from) == (8, 30, (), 8)
    second = SinkState(first, 9, version=31).numbered(first)
    assert (second.sequence, second.based_on, second.undone, second.known_from) == (10, 31, ((9, 9),), 8)


def test_each_number_has_the_run_that_wrote_it() -> None:
    def of_run(version: int, run: str) -> Commit:
        record = SinkRecord("g", run, Offsets({}), version, version - 1, table_id="id")
        return Commit(version, "WRITE", {"mode": "Append"}, {}, record, removes=False)

    # A number that RESTORE undid is taken all the same.
    history = [CREATED, of_run(1, "a"), of_run(2, "b"), by_others(3, "RESTORE", version="1")]
    assert state(*history, ours(4, group="h")).run_of == {1: "a", 2: "b"}


def test_a_history_that_is_cut_is_told() -> None:
    assert not state(by_others(1, "OPTIMIZE")).is_whole
    assert not state(ours(7, group="h"), by_others(8, "OPTIMIZE")).is_whole
    assert not state(by_others(6, "OPTIMIZE"), ours(7), by_others(8, "RESTORE", version="3")).is_whole
    # A copy has rows whose story is in another table's log.
    assert state(by_others(0, "CLONE"), ours(1, group="h")) == SinkState(is_whole=False, is_copy=True)


def test_topics_that_are_begun_anew_count_for_nothing() -> None:
    ends = Offsets({A: 56, V: 28})
    committed_numbers = SinkState(SinkRecord("g", "r", ends), 3)
    anew = committed_numbers.without_topics(["clicks"])
    assert (anew.ends, anew.sequence) == (Offsets({V: 28}), 3)
    assert committed_numbers.without_topics([]) == committed_numbers
    assert SinkState().without_topics(["clicks"]) == SinkState()


def test_two_commits_on_one_version() -> None:
    """Delta lets the second one through once it has forgotten the transaction of the first."""
    twice = state(CREATED, ours(1), ours(2), ours(3, based_on=1))
    assert twice.taken_out == TakenOut(3, "WRITE", everything=True, how=Harm.BESIDE)
    assert state(CREATED, ours(1), ours(2, group="h"), ours(3, based_on=1)).taken_out is None
    assert state(CREATED, ours(1), ours(2), ours(3, based_on=1), ours(4)).taken_out is None
    back = state(CREATED, ours(1), ours(2), ours(3, based_on=1), by_others(4, "RESTORE", version="2"))
    assert (back.record, back.taken_out) == (record_of(ours(2)), None)


def test_commit_meant_for_another_table() -> None:
    """The state reports a commit whose record names the id of another table."""
    history = [CREATED, ours(1)]
    assert state_of(history[::-1], "g", "new").taken_out == TakenOut(1, "WRITE", everything=True, how=Harm.MOVED)
    # The table's first commit names none, and no id is no other one.
    first = SinkState(version=None).numbered(SinkRecord("g", "r", Offsets({})))
    assert (first.based_on, first.table_id) == (None, None)
    assert state_of([Commit(0, "WRITE", {}, {}, first)], "g", "new").taken_out is None
    second = SinkState(first, 1, version=0, table_id="new").numbered(first)
    assert (second.based_on, second.table_id) == (0, "new")


operations = st.sampled_from(["ours", "others", "OPTIMIZE", "RESTORE"])


@given(st.lists(st.tuples(operations, st.integers(0, 30)), max_size=20))
def test_state_matches_a_stepwise_model(steps: list[tuple[str, int]]) -> None:
    """The state equals a model that follows commits, OPTIMIZE, and RESTORE step by step."""
    history, ends = [CREATED], [Offsets({})]
    for number, (operation, chosen) in enumerate(steps, start=1):
        if operation == "RESTORE":
            version = chosen % number
            history.append(by_others(number, "RESTORE", version=str(version)))
            ends.append(ends[version])
        elif operation == "OPTIMIZE":
            history.append(kept(number, "OPTIMIZE"))
            ends.append(ends[-1])
        else:
            commit = ours(number, group="g" if operation == "ours" else "h")
            history.append(commit)
            ends.append(Offsets({A: 28 * number}) if operation == "ours" else ends[-1])
    found = state(*history)
    assert (found.ends, found.is_whole, found.taken_out) == (ends[-1], True, None)
    assert found.sequence >= max(
        (c.record.sequence for c in history if c.record is found.record and c.record), default=0
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=20))
def test_committed_numbers_match_a_model(steps: list[tuple[bool, int]]) -> None:
    """Each commit's record says exactly which earlier numbers are in the table."""
    history, committed_numbers = [CREATED], [frozenset[int]()]
    for version, (writes, chosen) in enumerate(steps, start=1):
        before = state(*history)
        if writes:
            record = before.numbered(SinkRecord("g", "r", Offsets({})))
            assert record.based_on == version - 1
            history.append(Commit(version, "WRITE", {"mode": "Append"}, {}, record))
            committed_numbers.append(committed_numbers[-1] | {record.sequence})
        else:
            back_to = chosen % version
            history.append(by_others(version, "RESTORE", version=str(back_to)))
            committed_numbers.append(committed_numbers[back_to])
        found = state(*history)
        numbers = range(1, found.sequence + 1)
        ranges = found.record.committed_numbers if found.record is not None else ()
        assert {n for n in numbers if any(first <= n <= last for first, last in ranges)} == committed_numbers[-1]


def test_former_ids_in_a_commit() -> None:
    """A commit names the ids that the table had before, newest first."""
    made = SinkRecord("g", "r", Offsets({}))
    first = SinkState(table_id="a").numbered(made)
    second = SinkState(first, 1, table_id="b").numbered(made)
    third = SinkState(second, 2, table_id="c").numbered(made)
    again = SinkState(third, 3, table_id="a").numbered(made)
    found = [(one.table_id, one.former_ids) for one in (first, second, third, again)]
    assert found == [("a", ()), ("b", ("a",)), ("c", ("b", "a")), ("a", ("c", "b"))]
    assert SinkState(third, 3, table_id="c").table_ids == ("c", "b", "a")
    assert SinkState().table_ids == ()
