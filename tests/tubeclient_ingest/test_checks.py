"""What a run believes of the target, and what is for the user to say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.beginning import (
    OtherCluster,
    UnknownRows,
    check_beginning,
    check_cluster,
    trusted,
    unknown_rows,
)
from tubeclient_ingest.commits.history import Harm, SinkState, TakenOut
from tubeclient_ingest.commits.record import SinkRecord

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
RECORD = SinkRecord("g", "run-1", Offsets({A: 280, B: 560}), 12)
STATE = SinkState(RECORD, 12)
CUT, COPY = SinkState(is_whole=False), SinkState(is_whole=False, is_copy=True)


JSON = '{"default": "earliest"}'
"""May have stayed in the settings since the first run."""


def test_where_rows_end_that_nobody_knows_is_for_the_user_to_say() -> None:
    for state, words in ((CUT, "its history does not say"), (COPY, "is a copy")):
        with pytest.raises(UnknownRows, match=rf"^/lake/t .*{words}.* starting-offsets.*; or to group"):
            check_beginning(state, "/lake/t", "g", ["clicks"])
    # After a cut a topic without rows may have had some.
    after_a_cut = SinkState(replace(RECORD, known_from=9), 12)
    check_beginning(after_a_cut, "/lake/t", "g", ["clicks"])
    with pytest.raises(UnknownRows, match="its history does not say"):
        check_beginning(after_a_cut, "/lake/t", "g", ["clicks", "views"])
    for known in (STATE, SinkState(), SinkState(RECORD, is_whole=False)):
        check_beginning(known, "/lake/t", "g", ["clicks", "views"])


EAST = ("10.0.0.1:8715", "10.0.0.2:8715")
FROM_EAST = SinkState(SinkRecord("g", "run-1", Offsets({A: 280}), masters=EAST), 12)


def test_rows_of_a_cluster_that_shares_no_master_are_refused() -> None:
    with pytest.raises(
        OtherCluster,
        match=r"group g in /lake/t come .* 10\.0\.0\.1:8715,10\.0\.0\.2:8715, "
        r".* set former-masters to 10\.0\.0\.1:8715,10",
    ):
        check_cluster(FROM_EAST, "/lake/t", ("10.9.0.1:8715",))
    for masters, former in ((EAST, ()), (("10.9.0.1:8715", EAST[1]), ()), (("10.9.0.1:8715",), (EAST[0],))):
        check_cluster(FROM_EAST, "/lake/t", masters, former)
    for state in (SinkState(), STATE):  # whose masters nobody knows
        check_cluster(state, "/lake/t", EAST)


SOME, ALL = TakenOut(9, "DELETE", everything=False), TakenOut(9, "TRUNCATE", everything=True)


@pytest.mark.parametrize("chosen", [None, "earliest", "group", "2026-11-21T10:31Z", JSON])
@pytest.mark.parametrize("how", list(Harm))
def test_what_may_concern_all_rows_is_for_the_user_to_judge(chosen: str | None, how: Harm) -> None:
    with pytest.raises(UnknownRows) as caught:
        trusted(SinkState(RECORD, 12, ALL._replace(how=how)), "/lake/t", "g", chosen)
    text = str(caught.value)
    assert text.startswith(f"version 9 of /lake/t (TRUNCATE) {how.value}, so it is unknown which rows of group g")
    assert "RESTORE TABLE /lake/t TO VERSION AS OF 8, and start again" in text
    assert "starting-offsets target, once: missing rows are not read again" in text


def test_rows_of_topics_that_all_begin_anew_do_not_matter() -> None:
    state = SinkState(RECORD, 12, ALL, version=9, table_id="id")
    found = trusted(state.without_topics(["clicks"]), "/lake/t", "g", JSON)
    assert (found.ends.to_dict(), found.sequence, found.version) == ({"version": 1}, 12, 9)
    with pytest.raises(UnknownRows):
        trusted(state.without_topics(["views"]), "/lake/t", "g", JSON)


@pytest.mark.parametrize("chosen", [None, "earliest", "group", "target", '{"default": "earliest"}'])
def test_rows_that_a_predicate_picked_were_meant_to_go(chosen: str | None) -> None:
    assert trusted(SinkState(RECORD, 12, SOME), "/lake/t", "g", chosen) == STATE
    assert trusted(SinkState(RECORD, 12, ALL), "/lake/t", "g", "target") == STATE


def test_of_a_table_that_was_written_over_at_its_first_commit_there_is_nothing_to_restore() -> None:
    text = str(unknown_rows(ALL._replace(version=0), "/lake/t", "g"))
    assert "RESTORE" not in text
    assert "remove the table, and set starting-offsets to earliest" in text
