"""Whether rows fit a table's columns."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from tubeclient_ingest.target_columns import OtherColumns, check_columns

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
    with pytest.raises(OtherColumns, match="column id of /t has type int, and the job's rows have bigint"):
        check_columns(table, ROWS, "/t", evolve=evolve)
