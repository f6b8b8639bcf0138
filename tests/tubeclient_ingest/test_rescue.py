"""The column `_rescued` of targets: whoever writes, with a key, with many tables, and as schemas change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.bench import Bench
from tubeclient.conditions import error_text
from tubeclient_ingest.rounds.retrying import Retried
from tubeclient_ingest.tables.target_columns import OtherColumns

pytestmark = pytest.mark.spark

JSON = {"format": "json", "schema": "id BIGINT NOT NULL, n INT", "rescue": "fields"}
LATE = b'{"id":2,"more":{"price":0.10,"a":[1e400]},"ID":null}'
MORE = '{"more":{"price":0.10,"a":[1e400]},"ID":null}'
TYPE = b'{"n":"x","id":3,"y":1}'


def send(bench: Bench, *bodies: bytes) -> None:
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])


def rows(place: str | Path) -> list[tuple[Any, ...]]:
    table = DeltaTable(str(place))
    there = {field.name for field in table.schema().fields}
    names: list[str] = [one for one in ("id", "n", "more", "_rescued") if one in there]
    found: list[tuple[Any, ...]] = [tuple(row.values()) for row in table.to_pyarrow_table(columns=names).to_pylist()]
    return sorted(found, key=repr)


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_life_of_a_table(bench: Bench, writer: str) -> None:
    """A retry moves what a rule of today takes. Once the schema names a field, it is in its column."""
    place, bad = bench.settings.target, str(bench.folder / "bad")
    own = {**JSON, "writer": writer, "bad_records": bad}
    send(bench, b'{"id":1,"n":1}', LATE, TYPE, b"{")
    [one] = bench.run(**own)
    assert (one.rows, one.bad_rows) == (2, 2)
    assert rows(place) == [(1, 1, None), (2, None, MORE)]
    assert bench.job(**own | {"rescue": "values"}).retry() == Retried(1, 1)
    assert rows(place)[2:] == [(3, None, '{"n":"x","y":1}')]
    send(bench, LATE, TYPE.replace(b"3", b"4"))
    newer = {
        **own,
        "rescue": "values",
        "schema": f"{JSON['schema']}, more STRUCT<price: DECIMAL(4, 2)>",
        "evolve": True,
    }
    [one] = bench.run(**newer)
    assert (one.rows, one.bad_rows) == (2, 0)
    [four] = [row for row in rows(place) if row[0] == 4]
    assert four == (4, None, None, '{"n":"x","y":1}')
    # The column has a part of its field.
    assert MORE in {row[-1] for row in rows(place) if row[2] is not None}


@pytest.mark.merge
def test_table_without_the_column(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A table without the column _rescued gets it only if the user sets evolve."""
    send(bench, b'{"id":1,"x":1}')
    bench.run(**JSON | {"rescue": "none"})
    send(bench, LATE)
    with pytest.raises(OtherColumns) as caught:
        bench.run(**JSON)
    assert "lacks columns of the job's rows: _rescued string." in error_text(caught.value)
    caplog.clear()
    bench.run(**JSON, evolve=True)
    assert rows(bench.settings.target) == [(1, None, None), (2, None, MORE)]
    send(bench, b'{"n":1}', *[b'{"id":9}'] * 50)
    bench.run(**JSON, bad_records=str(bench.folder / "bad"))
    # That nothing was rescued is no warning.
    assert [
        one.getMessage().partition(", so")[0] for one in caplog.records if "has a value for" in one.getMessage()
    ] == ["none of the first 50 records has a value for n"]
    send(bench, b'{"id":3,"x":1}')
    bench.run(**JSON | {"rescue": "none"})
    assert (3, None, None) in rows(bench.settings.target)


def test_newest_row_of_a_key(bench: Bench) -> None:
    """The newest row of a key has the rescued fields of its newest record, and no others."""
    own = {**JSON, "rescue": "values", "key": ("id",), "order_by": "n"}
    send(bench, b'{"id":1,"n":1,"x":1}', b'{"id":2,"n":1}', b'{"id":1,"n":2,"x":2}')
    bench.run(**own)
    assert rows(bench.settings.target) == [(1, 2, '{"x":2}'), (2, 1, None)]
    send(bench, b'{"id":1,"n":3}', b'{"id":2,"n":0,"x":0}', b'{"id":2,"n":2,"y":null}')
    bench.run(**own)
    assert rows(bench.settings.target) == [(1, 3, None), (2, 2, '{"y":null}')]
    send(bench, b'{"id":2,"n":3,"x":9}')
    bench.run(**own | {"rescue": "none"})
    assert rows(bench.settings.target) == [(1, 3, None), (2, 3, None)]


def test_order_column_is_never_rescued(bench: Bench) -> None:
    """As null it would be the oldest, and the row would be lost."""
    own = {**JSON, "rescue": "values", "key": ("id",), "order_by": "n", "bad_records": str(bench.folder / "bad")}
    send(bench, b'{"id":1,"n":5}', b'{"id":2,"n":"7x"}')
    bench.run(**own)
    send(bench, b'{"id":1,"n":"6x"}', b'{"id":2}')
    [one] = bench.run(**own)
    assert one.bad_rows == 2
    assert rows(bench.settings.target) == [(1, 5, None)]
    assert len(DeltaTable(str(bench.folder / "bad")).to_pyarrow_table()) == 3


def test_each_table_of_many_has_its_own(bench: Bench) -> None:
    """Records of no table stay raw."""
    send(bench, b'{"kind":"a","id":1,"x":1}', b'{"kind":"b","id":2}', b'{"id":3,"x":1}')
    bench.run(**JSON, table_by="$.kind", target=str(bench.folder / "{stream}"))
    assert rows(bench.folder / "a") == [(1, None, '{"kind":"a","x":1}')]
    assert rows(bench.folder / "b") == [(2, None, '{"kind":"b"}')]
    rest = DeltaTable(str(bench.folder / "_rest"))
    assert "_rescued" not in {field.name for field in rest.schema().fields}
    assert [row["value"] for row in rest.to_pyarrow_table().to_pylist()] == [b'{"id":3,"x":1}']


def test_a_constraint_can_say_that_nothing_is_rescued(bench: Bench) -> None:
    bench.run(**JSON)
    place = bench.settings.target
    bench.spark.sql(f"ALTER TABLE delta.`{place}` ADD CONSTRAINT known CHECK (_rescued IS NULL)").collect()
    send(bench, b'{"id":1}', LATE)
    [one] = bench.run(**JSON, bad_records=str(bench.folder / "bad"))
    assert (one.rows, one.bad_rows) == (1, 1)
    [bad] = DeltaTable(str(bench.folder / "bad")).to_pyarrow_table(columns=["reason"]).to_pylist()
    assert bad["reason"] == "the target's constraint known refuses it"
