"""What a run says in its one table at its beginning and after a round. Without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from spark_source.offsets.offsets import Offsets
from tests.tubeclient_ingest.test_group_table import KEY, SETTINGS, Bench, Writing, at, looks
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.beginning import TableChanged
from tubeclient_ingest.rounds.group_table import GroupTable, RoundResult
from tubeclient_ingest.rounds.one_table import OneTable

__all__ = ["looks"]

OTHER = PartitionKey(1, "clicks", 1)
NOT_READ = PartitionKey(1, "views", 0)


def begun(bench: Bench, start: Offsets, *, is_accepted: bool = False) -> OneTable:
    writer: Any = Writing(bench.target())
    one = OneTable(writer, SETTINGS, ("m:1",))
    one.checkpoint.begin(None, ())
    one.record_start(start, is_accepted=is_accepted)
    return one


def test_start_is_committed_unless_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run commits where it begins unless the table's last commit says the same and is recent."""
    bench = Bench()

    def said(start: Offsets, *, is_accepted: bool = False) -> tuple[int, Offsets]:
        state = begun(bench, start, is_accepted=is_accepted).checkpoint.state
        return state.sequence, state.ends

    assert said(Offsets({})) == (1, Offsets({}))  # an expired history is not to be taken for a group that never wrote
    assert [said(at(28)), said(at(28)), said(Offsets({}))] == [(2, at(28))] * 3
    assert said(at(28), is_accepted=True) == (3, at(28))
    assert said(Offsets({OTHER: 0})) == (4, Offsets({KEY: 28, OTHER: 0}))
    monkeypatch.setattr(GroupTable, "is_old", True)
    assert said(Offsets({})) == (5, Offsets({KEY: 28, OTHER: 0}))


def test_jumped_number_before_the_first_round() -> None:
    """A run on a restored table takes the number it jumps to before its first round."""
    bench = Bench()
    begun(bench, at(28))

    def begun_again() -> OneTable:
        writer: Any = Writing(bench.target(), (5, 0))
        one = OneTable(writer, SETTINGS, ("m:1",))
        one.checkpoint.begin(None, ())
        one.record_start(at(28), is_accepted=False)
        return one

    state = begun_again().checkpoint.state
    assert (state.sequence, state.ends, state.record and state.record.undone) == (6, at(28), ((2, 5),))
    assert begun_again().checkpoint.state.sequence == 6


@pytest.mark.usefixtures("looks")
def test_partition_that_left_the_cluster() -> None:
    """A round drops offsets of a partition that left the cluster, and keeps those it never reads."""
    bench = Bench()
    one = begun(bench, Offsets({KEY: 28, OTHER: 28, NOT_READ: 84}))
    assert one.write(None, Offsets({KEY: 28, OTHER: 28}), at(56)) == RoundResult(2, None, 0, 0)
    assert one.checkpoint.state.ends == {KEY: 56, NOT_READ: 84}
    bench.log.restore(1)
    with pytest.raises(TableChanged):
        one.write(None, at(56), at(84))
    assert len(bench.log.versions) == 4
