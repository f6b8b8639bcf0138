"""Lets Spark find the data source `tubeclient` by itself: it looks for `DefaultSource` in modules named `pyspark_*`."""

from spark_source.source import TubeSource as DefaultSource

__all__ = ["DefaultSource"]
