"""A write whose first task fails once, when the brokers have some of its rows; Spark then tries it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext

from spark_source.source import TubeSource
from spark_source.write.sink import TubeBatchWriter
from tests.spark_source.own_session import new_session

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

BATCH_ROWS = 500


class FlakyWriter(TubeBatchWriter):
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return super().write(fail_once(iterator))


class FlakySink(TubeSource):
    @classmethod
    def name(cls) -> str:
        return "flaky_tubeclient"

    def writer(self, schema: StructType, overwrite: bool) -> FlakyWriter:
        writer = super().writer(schema, overwrite)
        assert isinstance(writer, TubeBatchWriter)
        return FlakyWriter(writer._options, writer._columns)


def fail_once(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """In the first attempt of the first partition, break off before the last batch."""
    context = TaskContext.get()
    assert context is not None
    fails = context.partitionId() == 0 and context.attemptNumber() == 0
    held: pyarrow.RecordBatch | None = None
    for batch in batches:
        if held is not None:
            yield held
        held = batch
    if fails:
        raise ConnectionError("this attempt was made to fail")
    if held is not None:
        yield held


def main(options: dict[str, str], count: int) -> None:
    """Write `count` numbered rows of two partitions, in a session of its own that gives each task three attempts."""
    spark = new_session(
        {"spark.master": "local[2, 3]", "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS)}
    )
    rows = spark.range(0, count, 1, 2).selectExpr("format_string('%06d', id) AS value")
    spark.dataSource.register(FlakySink)
    rows.write.format("flaky_tubeclient").options(**options).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    import json
    import sys

    main(json.loads(sys.argv[1]), int(sys.argv[2]))
