"""`spark.read.format("tubeclient")` and `spark.readStream.format("tubeclient")`.

Spark imports this module while it looks for data sources, and an import that fails there takes all other sources with
it. So nothing is imported here but Spark's own classes; the rest comes when a read is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_source.options import SourceOptions

__all__ = ["TubeSource"]


class TubeSource(DataSource):
    """The data source `tubeclient`. Its options are those of `spark_source.option_table`, checked when it is made."""

    def __init__(self, options: Mapping[str, str]) -> None:
        from spark_source.access import check_here
        from spark_source.options import parse_options

        super().__init__({})  # the raw options stay out of this object: they can hold secrets
        self._options: SourceOptions = parse_options(options)
        check_here(self._options)
        self._planned = False

    @classmethod
    def name(cls) -> str:
        return "tubeclient"

    def schema(self) -> StructType:
        from spark_source.schema import spark_schema

        return spark_schema(self._options.include_attributes)

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_source.batch_reader import TubeBatchReader
        from spark_source.schema import check_schema

        check_schema(schema, self._options.include_attributes)
        self._options.check_batch()
        self._planned = True
        return TubeBatchReader(self._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from spark_source.schema import check_schema
        from spark_source.stream_reader import TubeStreamReader

        check_schema(schema, self._options.include_attributes)
        self._options.check_stream()
        self._planned = True
        return TubeStreamReader(self._options)

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles this object for the planner's process, and, once it gave a reader, for every task as well."""
        return {**self.__dict__, "_options": self._options.for_tasks() if self._planned else self._options}
