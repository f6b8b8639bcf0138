"""Spark's checkpoint of the job's query: its query id and the ends of its batches.

The sink's commit records where its batch ends, and foreachBatch does not get that. Spark writes it to the checkpoint's
offset log before the batch runs, so it is read from there. Hadoop's file systems read every kind of checkpoint path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from offsets_store.errors import display_uri
from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Checkpoint", "parse_metadata", "parse_offset_log"]

_SHOWN: Final = 60
"""Characters of a damaged file in an error."""


class Checkpoint:
    """The checkpoint at `location`, a path or URI; it need not exist yet."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location

    def query_id(self) -> str | None:
        """The id that Spark generated for the checkpoint; None for a new one."""
        text = self._read("metadata")
        if text is None:
            return None
        with self._naming("metadata"):
            return parse_metadata(text)

    def end_of(self, batch_id: int) -> Offsets | None:
        """Where the batch ends; None if it was never planned. ConfigurationError for another job's checkpoint."""
        name = f"offsets/{batch_id}"
        text = self._read(name)
        if text is None:
            return None
        with self._naming(name):
            return parse_offset_log(text)

    def newest_end(self) -> Offsets | None:
        """Where the last batch ends that was planned; None if none was."""
        newest = self.newest_batch()
        return None if newest is None else self.end_of(newest)

    def newest_batch(self, log: Literal["offsets", "commits"] = "offsets") -> int | None:
        """The number of the last batch that was planned, or with "commits" that was completed; None if none was."""
        _, files, path = self._place(log)
        if not files.exists(path):
            return None
        names = [str(one.getPath().getName()) for one in files.listStatus(path)]
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def start_of_running_batch(self) -> Offsets | None:
        """Where the running batch of the checkpoint's query begins; None if it has nothing to read.

        The source decides where batch 0 begins, and only Spark's plan of the batch shows it.
        """
        query_id = self.query_id()
        for query in self._spark.streams.active:
            if query.id != query_id:
                continue
            leaves: Any = query._jsq.streamingQuery().lastExecution().logical().collectLeaves()
            for index in range(leaves.size()):
                leaf = leaves.apply(index)
                if leaf.getClass().getSimpleName() == "StreamingDataSourceV2ScanRelation":
                    return Offsets.parse(str(leaf.startOffset().get().json()))
        return None

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Errors about what a file of the checkpoint has name the file."""
        try:
            yield
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{display_uri(self._location).rstrip('/')}/{name}: {error}", condition=error.condition
            ) from None

    def _place(self, name: str) -> tuple[Any, Any, Any]:
        """The JVM, and the file system and path of a name in the checkpoint."""
        # PySpark's type stubs have no JVM, and under Spark Connect there is none.
        jvm: Any = self._spark._jvm
        hadoop_conf: Any = self._spark.sparkContext._jsc.hadoopConfiguration()
        path = jvm.org.apache.hadoop.fs.Path(self._location, name)
        return jvm, path.getFileSystem(hadoop_conf), path

    def _read(self, name: str) -> str | None:
        jvm, files, path = self._place(name)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()


def parse_metadata(text: str) -> str:
    """The query's id in the checkpoint's file "metadata". ConfigurationError if it has none, as one that was cut."""
    try:
        found = json.loads(text)["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        found = None
    if not isinstance(found, str):
        raise ConfigurationError(
            f"this is not what Spark writes there, a JSON object with the query's id, but {text[:_SHOWN]!r}. Bring the"
            " file back, or give the job a new checkpoint: it begins where the group's rows in the target end"
        )
    return found


def parse_offset_log(text: str) -> Offsets:
    """Parse an entry of the offset log: its version, a line of metadata, and one line per source, which in version 2
    begins with the source's name. The job has one source."""
    lines = text.strip().split("\n")
    if lines[0] not in ("v1", "v2") or len(lines) != 3:
        raise ConfigurationError(
            f"the checkpoint's offset log has version {lines[0]!r} and {max(0, len(lines) - 2)} sources; this job"
            " supports versions 'v1' and 'v2' with one source. Give the job a checkpoint of its own"
        )
    return Offsets.parse(lines[2] if lines[0] == "v1" else lines[2].partition(":")[2])
