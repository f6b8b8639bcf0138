"""The data source with tasks that fail once, after they have returned rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from spark_source.source import TubeSource
from spark_source.stream.stream_reader import TubeStreamReader
from tests.spark_source.own_session import new_session

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


class FlakyReader(TubeStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in super().read(partition):
            yield batch
            if context.attemptNumber() == 0:
                raise ConnectionError("this attempt was made to fail")


class FlakySource(TubeSource):
    @classmethod
    def name(cls) -> str:
        return "flaky_tubeclient"

    def streamReader(self, schema: StructType) -> FlakyReader:
        reader = super().streamReader(schema)
        assert isinstance(reader, TubeStreamReader)
        return FlakyReader(reader._options)


def main(options: dict[str, str], folder: Path) -> None:
    """Read all there is into JSON files, in a session of its own that gives each task two attempts."""
    spark = new_session({"spark.master": "local[2, 2]"})
    spark.dataSource.register(FlakySource)
    query = (
        spark.readStream.format("flaky_tubeclient")
        .options(**options)
        .load()
        .selectExpr("cast(value as string) AS body")
        .writeStream.format("json")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    if not query.awaitTermination(120):
        raise SystemExit("the query did not end")
    spark.stop()


if __name__ == "__main__":
    import json
    import sys

    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
