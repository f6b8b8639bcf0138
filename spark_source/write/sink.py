"""The writers that Spark calls; they delegate to the writing task.

Spark creates a writer on the driver, where wrong columns and options are reported, and sends a copy to each task. A
batch write does so in `save`. A streaming query creates a writer per micro-batch, and none before the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_source.boundary import HAS_ARROW_STREAM_WRITES, DataSourceStreamArrowWriter, as_one_line
from spark_source.options.source_options import SinkOptions
from spark_source.write.sink_rows import SinkColumns
from spark_source.write.task_write import write_rows
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow


class _Writer:
    """Base of both writers: holds the tasks' data. Opens nothing on the driver.

    Spark tells a writer of success and failure; there is nothing to do. Messages of finished tasks stay on the brokers.
    """

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    @as_one_line()
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._options, self._columns, iterator)


class TubeBatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("tubeclient")`."""


class TubeStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("tubeclient")`."""


def check_streams() -> None:
    """Raise ConfigurationError if Spark can pass rows of streams to Python sinks only one at a time."""
    if not HAS_ARROW_STREAM_WRITES:
        raise ConfigurationError(
            f"writeStream to tubeclient needs Spark 4.1; this is {pyspark.__version__}. Upgrade, or write in "
            "foreachBatch",
            condition="NEEDS_NEWER_SPARK",
        )
