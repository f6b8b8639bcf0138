"""A stream reader for options that a stream refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_source.boundary import as_one_line
from spark_source.engine import ReadLimit

__all__ = ["RefusedStreamReader"]


class RefusedStreamReader(DataSourceStreamReader):
    """Raises `error` at each call.

    Spark 4.2 hides an error of `streamReader` itself: it then stops the reader that it did not get, and reports that it
    has none (`main` of pyspark/sql/streaming/python_streaming_source_runner.py).
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()

    @as_one_line()
    def _refuse(self) -> NoReturn:
        raise self._error
