"""What `Ingest.history` says of the job's rounds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.tubeclient_ingest.bench import Bench
from tests.tubeclient_ingest.test_without_value import BODIES, how, send

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_the_history_has_the_rounds(bench: Bench, writer: str) -> None:
    """With rows and bad records; commits of others are none; what RESTORE took out is marked."""
    before = datetime.now(UTC)
    send(bench, *BODIES)
    given = how(bench, writer)
    rounds = bench.run(**given)
    assert len(rounds) == 2
    found = bench.job(**given).history()
    told = [(one.sequence, one.rows, one.bad_rows) for one in reversed(rounds)]
    assert [(one.sequence, one.rows, one.bad_rows) for one in found] == [*told, (1, 0, 0)]
    assert sorted(found[0].end_offsets.values()) == [28, 28 * len(BODIES)]
    assert all(one.timestamp is not None and one.timestamp >= before.replace(microsecond=0) for one in found)
    assert not any(one.is_retry or one.is_undone for one in found)
    table = f"delta.`{bench.settings.target}`"
    bench.spark.sql(f"INSERT INTO {table} (id) VALUES (7)").collect()
    bench.restore(found[1].version)
    own = bench.job(**given)
    assert [(one.sequence, one.is_undone) for one in own.history()] == [(3, True), (2, False), (1, False)]
    assert [one.sequence for one in own.history(limit=3)] == [3]


def test_without_a_table_there_is_no_history(bench: Bench) -> None:
    """As before the job's first run."""
    assert bench.job().history() == []


def test_rounds_of_many_tables(bench: Bench) -> None:
    """They are commits of the counts table, with the rows and bad records of all tables."""
    send(bench, *BODIES)
    given = {**how(bench, "tasks"), "table_by": "topic", "target": str(bench.folder / "{stream}")}
    rounds = bench.run(**given)
    found = bench.job(**given).history()
    stated = [(one.rows, one.bad_rows) for one in found if one.rows or one.bad_rows]
    assert stated == [(one.rows, one.bad_rows) for one in reversed(rounds)]
    assert sum(bad for _, bad in stated) == 3
