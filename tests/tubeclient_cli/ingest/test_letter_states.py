"""Which state of a bad record is right, by what the target says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_source.offsets.offsets import Offsets
from tubeclient_cli.ingest.letter_states import BAD, RETRIED, UNDONE, judgement
from tubeclient_cli.ingest.sink_history import SinkState
from tubeclient_cli.ingest.sink_record import SinkRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[tuple[int, tuple[int, ...]], str | None]
"""By the number of a row's batch and those of its retries: the right state, None if the target does not tell."""

WHOLE = SinkState(SinkRecord("g", "q", 0, Offsets({}), 12, undone=((10, 10),)), 14)
"""Of the commits 1 to 14, RESTORE undid 10, and later 13 and 14."""
OF_WHOLE: Rows = {
    (9, ()): BAD,
    (10, ()): UNDONE,
    (13, ()): UNDONE,
    (9, (11,)): RETRIED,
    (8, (10,)): BAD,
    (8, (10, 11)): RETRIED,
    (9, (13,)): BAD,
    (10, (11,)): UNDONE,
    # Another run's.
    (15, ()): None,
    (9, (15,)): None,
    (9, (11, 15)): None,
}
CUT = SinkState(SinkRecord("g", "q", 0, Offsets({}), 12, undone=((10, 10),), known_from=8), 14)
"""The history no longer tells of commits before 8."""
OF_CUT: Rows = {
    **OF_WHOLE,
    (3, ()): None,
    (3, (5,)): None,
    (3, (15,)): None,
    (8, ()): BAD,
    (3, (8,)): RETRIED,
    (3, (9,)): RETRIED,
    (3, (10,)): BAD,
    (3, (13,)): BAD,
    # When 13 took it as bad, 5 was undone.
    (3, (5, 13)): BAD,
    (3, (5, 11)): RETRIED,
}
EMPTY = SinkState(None, 2, is_restored=True)
OF_EMPTY: Rows = {(1, ()): UNDONE, (1, (2,)): UNDONE, (3, ()): None}


@pytest.mark.spark
def test_rows_are_judged_by_the_batches_and_retries_that_the_target_has(delta_spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    for state, expected in ((WHOLE, OF_WHOLE), (CUT, OF_CUT), (EMPTY, OF_EMPTY)):
        rows = delta_spark.createDataFrame([(n, list(r)) for n, r in expected], "sequence long, retries array<long>")
        right = judgement(state)
        assert right is not None
        found = rows.select("*", F.when(right.is_known, right.state).alias("right")).collect()
        assert {(row.sequence, tuple(row.retries)): row.right for row in found} == expected


def test_nothing_is_judged_where_the_groups_commits_are_not_known() -> None:
    assert judgement(SinkState(None, 7, is_whole=False)) is None
