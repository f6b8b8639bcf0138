"""`format("tubeclient")` of `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`.

Spark imports this module when it looks for data sources. A failed import here would break all other sources. So it
imports only Spark's own classes and `boundary`; the rest is imported when a reader or writer is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from spark_source.boundary import as_one_line

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_source.options.given import GivenOptions
    from spark_source.options.source_options import SourceOptions


class TubeSource(DataSource):
    """The data source `tubeclient`. Its options are those of `spark_source.options`.

    The constructor checks each value. When Spark asks for the schema (in `load`), combinations of options for a read
    are checked. When it asks for a writer, those for a write are checked.

    Raises:
        ConfigurationError: An option, the schema or the write mode is wrong. Spark shows the error in one line.
    """

    @as_one_line()
    def __init__(self, options: Mapping[str, str]) -> None:
        from spark_source.options.given import parse_given

        super().__init__({})  # keep the raw options out of this object: they can hold secrets
        self._given: GivenOptions = parse_given(options)
        self._planned = False

    @classmethod
    def name(cls) -> str:
        return "tubeclient"

    @as_one_line()
    def schema(self) -> StructType:
        return _schema(self._given.read_options())

    @as_one_line()
    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_source.read.schema import check_schema
        from spark_source.stream.batch_reader import TubeBatchReader
        from spark_source.stream.positions_reader import PositionsReader

        options = self._given.read_options()
        check_schema(schema, _schema(options))
        options.check_batch()
        self._planned = True
        return PositionsReader(options) if options.read_positions else TubeBatchReader(options)

    @as_one_line()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from spark_source.boundary import HAS_READ_LIMITS
        from spark_source.stream.stream_reader import TubeStreamReader

        try:
            # A package that is missing is told by the reader as well.
            from spark_source.read.schema import check_schema

            options = self._given.read_options()
            check_schema(schema, _schema(options))
            options.check_stream(read_limits=HAS_READ_LIMITS)
        except Exception as error:
            return TubeStreamReader(None, error)
        self._planned = True
        return TubeStreamReader(options)

    @as_one_line()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_source.write.sink import TubeBatchWriter
        from spark_source.write.sink_rows import find_columns

        options = self._given.write_options()
        if overwrite:
            raise _only_appends('mode("overwrite")', 'mode("append")')
        return TubeBatchWriter(options, find_columns(schema, options.topic))

    @as_one_line()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from spark_source.write.sink import TubeStreamWriter, check_streams
        from spark_source.write.sink_rows import find_columns

        options = self._given.write_options()
        check_streams()
        if overwrite:
            raise _only_appends('outputMode("complete")', 'outputMode("append")')
        return TubeStreamWriter(options, find_columns(schema, options.topic))

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles this object for the planner's process and, after it gave a reader, for every task, which needs
        only the reader."""
        from spark_source.options.given import GivenOptions

        return {**self.__dict__, "_given": GivenOptions() if self._planned else self._given}


def _schema(options: SourceOptions) -> StructType:
    from spark_source.read.schema import spark_schema
    from spark_source.stream.positions_reader import POSITIONS

    return POSITIONS if options.read_positions else spark_schema(options)


def _only_appends(asked: str, instead: str) -> Exception:
    from tubeclient.errors import ConfigurationError

    return ConfigurationError(
        f"{asked} would overwrite the topic, which is not possible; use {instead}", condition="APPEND_ONLY"
    )
