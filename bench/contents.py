"""What a side read or wrote is checked for what is in it: as many rows of something else are no result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Numbers", "check_numbers", "check_table", "table_rows"]


class Numbers(NamedTuple):
    """What is known of rows whose bodies are numbers, with zeros before them."""

    rows: int
    different: int
    total: int
    size: int
    """Of all bodies, in bytes."""

    @classmethod
    def of(cls, numbers: Sequence[int], body_bytes: int, times: int = 1) -> Numbers:
        """Each of the numbers, so many times."""
        rows = len(numbers) * times
        return cls(rows, len(set(numbers)), sum(numbers) * times, rows * body_bytes)


def check_numbers(frame: DataFrame, wanted: Numbers) -> None:
    """RuntimeError: the column `value` has other numbers."""
    number = "CAST(right(CAST(value AS STRING), 18) AS BIGINT)"
    [found] = (
        frame.selectExpr(f"{number} AS number", "length(value) AS size")
        .selectExpr("count(*)", "count(DISTINCT number)", "sum(number)", "sum(size)")
        .collect()
    )
    if tuple(found) != wanted:
        raise RuntimeError(f"there are other rows: {Numbers(*found)}, not {wanted}")


def table_rows(path: str, columns: Sequence[str]) -> pa.Table:
    """A Delta table's rows, or those of the Iceberg table `bench.target` in a warehouse, in the order of the first
    column, nulls last."""
    if (Path(path) / "catalog.db").exists():
        lake = load_catalog("default", type="sql", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
        return lake.load_table("bench.target").scan(selected_fields=tuple(columns)).to_arrow().sort_by(columns[0])
    return DeltaTable(path).to_pyarrow_table(columns=list(columns)).sort_by(columns[0])


def check_table(path: str, wanted: pa.Table, nulls: int = 0) -> None:
    """RuntimeError: the table does not have exactly these rows, in any order, and so many without a value."""
    found = table_rows(path, wanted.column_names).cast(wanted.schema)
    empty = pa.table({one.name: pa.nulls(nulls, one.type) for one in wanted.schema})
    if not found.equals(pa.concat_tables([wanted, empty])):
        raise RuntimeError(f"{path} has other rows: {len(found)}, and first\n{found.slice(0, 3).to_pylist()}")
