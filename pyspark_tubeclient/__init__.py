"""Lets Spark find the data source `tubeclient` by itself: it looks for `DefaultSource` in modules named `pyspark_*`."""

from tubeclient.extras import brought_by

with brought_by("spark"):
    import pyarrow  # noqa: F401

from spark_source.source import TubeSource as DefaultSource

__all__ = ["DefaultSource"]
