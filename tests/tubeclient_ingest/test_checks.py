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


def test_unknown_end_needs_starting_offsets() -> None:
    """A run asks for starting-offsets if the history does not say where the topics' rows end."""
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


def test_rows_of_another_cluster() -> None:
    """A run refuses rows of a cluster that shares no master with its current or former masters."""
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
def test_harm_to_all_rows_needs_a_decision(chosen: str | None, how: Harm) -> None:
    """A run asks for RESTORE or starting-offsets if a commit by others may concern all rows."""
    with pytest.raises(UnknownRows) as caught:
        trusted(SinkState(RECORD, 12, ALL._replace(how=how)), "/lake/t", "g", chosen)
    text = str(caught.value)
    assert text.startswith(f"version 9 of /lake/t (TRUNCATE) {how.value}, so it is unknown which rows of group g")
    assert "RESTORE TABLE /lake/t TO VERSION AS OF 8, and start again" in text
    assert "starting-offsets target, once: missing rows are not read again" in text


def test_harm_is_ignored_if_all_topics_begin_anew() -> None:
    """Harm to the table does not matter if the topics of all its rows begin anew."""
    state = SinkState(RECORD, 12, ALL, version=9, table_id="id")
    found = trusted(state.without_topics(["clicks"]), "/lake/t", "g", JSON)
    assert (found.ends.to_dict(), found.sequence, found.version) == ({"version": 1}, 12, 9)
    with pytest.raises(UnknownRows):
        trusted(state.without_topics(["views"]), "/lake/t", "g", JSON)


@pytest.mark.parametrize("chosen", [None, "earliest", "group", "target", '{"default": "earliest"}'])
def test_rows_that_a_predicate_picked_were_meant_to_go(chosen: str | None) -> None:
    assert trusted(SinkState(RECORD, 12, SOME), "/lake/t", "g", chosen) == STATE
    assert trusted(SinkState(RECORD, 12, ALL), "/lake/t", "g", "target") == STATE


def test_overwrite_at_the_first_commit() -> None:
    """The error suggests no RESTORE if the table's first commit overwrote it."""
    text = str(unknown_rows(ALL._replace(version=0), "/lake/t", "g"))
    assert "RESTORE" not in text
    assert "remove the table, and set starting-offsets to earliest" in text
