"""What the sink sees of a table that changes between two looks, where Delta's history is cut. Without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

import pytest
from pyspark.errors import PySparkException

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.sink import DeltaSink
from tubeclient_cli.ingest.sink_history import Commit
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.target_table import TableVersion, Transactions

KEY = PartitionKey(1, "clicks", 0)
KEPT = 3
"""Commits that the history has."""


class Cut:
    """A table of a group's commits, of which the history has lost all but maintenance. `late` commits of the group come
    between the look at the history and the one at the transactions, one at each look."""

    def __init__(self, late: int) -> None:
        self._late = late
        self.sequence = 7
        self._commits = [Commit(number, "OPTIMIZE", {}, {}, None) for number in range(10, 10 + KEPT)]

    @property
    def version(self) -> int:
        return self._commits[-1].version

    def newest(self) -> TableVersion:
        return TableVersion("id", self.version)

    def removing(self, versions: Collection[int]) -> set[int]:
        return set()

    def history(self, limit: int) -> list[Commit]:
        return self._commits[::-1][:limit]

    def transactions(self, transaction_id: str) -> Transactions:
        if self._late:
            self._late -= 1
            self.sequence += 1
            record = SinkRecord("g", "other", 0, Offsets({KEY: 280}), self.sequence, self.version)
            self._commits.append(Commit(self.version + 1, "WRITE", {"mode": "Append"}, {}, record))
        return Transactions(self.sequence, may_forget=False)


def look(table: Any) -> Any:
    spark: Any = None
    return DeltaSink(spark, "/target", "g", table=table).look()


def test_a_commit_between_two_looks_is_not_one_that_was_undone() -> None:
    table = Cut(late=1)
    state = look(table)
    assert state.record is not None
    assert (state.record.query_id, state.sequence, state.version) == ("other", 8, 13)
    again = state.numbered(state.record)
    assert (again.sequence, again.undone) == (9, state.record.undone)


def test_a_quiet_table_is_looked_at_once() -> None:
    state = look(Cut(late=0))
    assert (state.record, state.sequence, state.version) == (None, 7, 12)


def test_a_table_that_never_rests_is_an_error() -> None:
    class Restless(Cut):
        def history(self, limit: int) -> list[Commit]:
            self._commits.append(Commit(self.version + 1, "OPTIMIZE", {}, {}, None))
            return super().history(limit)

        def transactions(self, transaction_id: str) -> Transactions:
            self._commits.append(Commit(self.version + 1, "OPTIMIZE", {}, {}, None))
            return super().transactions(transaction_id)

    with pytest.raises(ConfigurationError, match="changed between two looks at it, 10 times in turn"):
        look(Restless(late=0))


class Restless:
    """A table whose columns others change during each write, until `quiet`. From version `emptied` on a DELETE of all
    rows is in its history."""

    def __init__(self, quiet: int, emptied: int = 1_000) -> None:
        self._quiet = quiet
        self._emptied = emptied
        self.tries = 0
        self.based_on: list[int | None] = []

    def newest(self) -> TableVersion:
        return TableVersion("id", self.tries)

    def removing(self, versions: Collection[int]) -> set[int]:
        return {self._emptied}.intersection(versions)

    def history(self, limit: int) -> list[Commit]:
        first = Commit(0, "WRITE", {"mode": "Append"}, {}, SinkRecord("g", "q", 0, Offsets({KEY: 28}), 1))
        names = dict.fromkeys(range(1, self.tries + 1), "SET TBLPROPERTIES") | {self._emptied: "DELETE"}
        later = [Commit(number, names[number], {}, {}, None) for number in range(1, self.tries + 1)]
        return [first, *later][::-1][:limit]

    def append(self, rows: object, record: SinkRecord, *, evolve: bool) -> int:
        self.tries += 1
        self.based_on.append(record.based_on)
        if self.tries <= self._quiet:
            raise PySparkException("[DELTA_METADATA_CHANGED] MetadataChangedException: by a concurrent update")
        return self.tries


@pytest.mark.parametrize(("quiet", "emptied", "tries"), [(0, 99, 1), (3, 99, 4), (9, 99, 10), (99, 99, 10), (99, 1, 1)])
def test_a_commit_is_tried_again_as_long_as_others_change_the_table_alone(quiet: int, emptied: int, tries: int) -> None:
    table: Any = Restless(quiet, emptied)
    spark: Any = None
    sink = DeltaSink(spark, "/target", "g", table=table)
    sink.look()
    with pytest.raises(PySparkException, match="METADATA") if quiet > tries else contextlib.nullcontext():
        assert sink.append(spark, SinkRecord("g", "q", 1, Offsets({KEY: 56}))).based_on == quiet
    assert table.based_on == list(range(tries))
