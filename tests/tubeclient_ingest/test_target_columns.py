"""Whether rows fit a table's columns."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from tubeclient_ingest.tables.table_detail import TableDetail
from tubeclient_ingest.tables.target_columns import OtherColumns, can_widen, check_columns, widenings

ROWS = StructType().add("id", LongType()).add("tubemq", StructType().add("topic", StringType()))


def test_equal_columns_are_taken() -> None:
    check_columns(ROWS, ROWS, "/t", evolve=False)
    table = (
        StructType()
        .add("TUBEMQ", StructType().add("Topic", StringType()))
        .add("ID", LongType(), False)
        .add("x", IntegerType())
    )
    check_columns(table, ROWS, "/t", evolve=False)


def test_what_the_table_lacks_needs_evolve() -> None:
    table = StructType().add("tubemq", StructType())
    with pytest.raises(
        OtherColumns, match=r"/t lacks columns of the job's rows: id bigint, tubemq\.topic string.* evolve"
    ):
        check_columns(table, ROWS, "/t", evolve=False)
    check_columns(table, ROWS, "/t", evolve=True)


@pytest.mark.parametrize("evolve", [False, True])
def test_another_type_is_refused(evolve: bool) -> None:
    table = StructType().add("id", IntegerType())
    with pytest.raises(OtherColumns, match="column id of /t has type int, but the job's rows have bigint"):
        check_columns(table, ROWS, "/t", evolve=evolve)


WIDER = [
    ("tinyint", "BIGINT"),
    ("int", "BIGINT"),
    ("float", "DOUBLE"),
    ("decimal(10,2)", "DECIMAL(12,2)"),
    ("decimal(10,2)", "DECIMAL(13,5)"),
    ("int", "DECIMAL(10,0)"),
    ("bigint", "DECIMAL(20,0)"),
]
NOT_WIDER = [
    ("int", "INT"),
    ("int", "STRING"),
    ("int", "DOUBLE"),
    ("int", "DECIMAL(11,2)"),
    ("bigint", "DECIMAL(19,0)"),
    ("decimal(10,2)", "DECIMAL(12,5)"),
    ("decimal(10,2)", "DECIMAL(10,2)"),
    ("decimal(10,2)", "BIGINT"),
    ("date", "TIMESTAMP_NTZ"),
    ("string", "DECIMAL(38,0)"),
]


def test_what_delta_widens_has_all_values_of_before() -> None:
    assert [one for one in [*WIDER, *NOT_WIDER] if can_widen(*one)] == WIDER
    assert not any(can_widen(wanted, kind) for kind, wanted in WIDER)


def test_widening_rules() -> None:
    """Columns widen only if the table allows it, and those of keys and partitions never do."""
    properties = {"delta.enableTypeWidening": "true"}
    there, rows = StructType().add("text", StringType()), StructType().add("more", LongType())
    for name in ("id", "n", "day"):
        there, rows = there.add(name, IntegerType()), rows.add(name.upper(), LongType())
    table = TableDetail("id", "/t", there, properties, ("day",))
    assert widenings(table, rows, ("id",)) == {"N": "bigint"}
    assert widenings(table._replace(properties={}), rows, ()) == {}
