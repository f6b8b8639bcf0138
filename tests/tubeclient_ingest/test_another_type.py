"""How users give a column of the target another type, by docs/bad-records.md, so that a retry moves bad records."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embedded_tubemq.storage.store import NewMessage
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.target_columns import OtherColumns
from tubeclient_ingest.writing import Retried

if TYPE_CHECKING:
    from tests.tubeclient_ingest.bench import Bench

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bad-records.md"


def statements(mark: str, target: str) -> list[str]:
    """Those of the page's block behind the mark, for this target."""
    found = re.search(rf"<!-- {mark} -->\n```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return [one.replace("/lake/clicks", target) for one in found[1].strip().split("\n")]


def test_a_column_is_widened_and_then_replaced(bench: Bench) -> None:
    settings = replace(bench.settings, bad_records=str(bench.folder / "bad"))

    def send(*texts: bytes) -> None:
        bench.tube.load("clicks", [NewMessage(0, text) for text in texts])

    def run(kind: str) -> None:
        bench.run(bad_records=settings.bad_records, **csv(kind))

    def csv(kind: str) -> dict[str, Any]:
        return {"format": "csv", "schema": f"id {kind}, name STRING"}

    def retry(kind: str) -> Retried:
        return Ingest(bench.spark, settings=replace(settings, **csv(kind))).retry()

    def rows() -> list[tuple[object, str]]:
        table = bench.spark.read.format("delta").load(settings.target)
        return sorted(((row.id, row.name) for row in table.collect()), key=lambda row: row[1])

    send(b"1,a", b"3000000000,b", b"x,c")
    run("INT")
    for mark, was, kind in (("widen", "int", "BIGINT"), ("replace", "bigint", "STRING")):
        with pytest.raises(OtherColumns, match=f"column id of .* has type {was}"):
            retry(kind)
        for statement in statements(mark, settings.target):
            bench.spark.sql(statement.removesuffix(";"))
        assert retry(kind).moved == 1
    assert rows() == [("1", "a"), ("3000000000", "b"), ("x", "c")]
    send(b"y,d")
    run("STRING")
    send(b"z,e")
    run("STRING")
    assert rows() == [("1", "a"), ("3000000000", "b"), ("x", "c"), ("y", "d"), ("z", "e")]
