"""OpenLineage's events of a run, from what it read and wrote. Pure.

Each event has all since the run began: what one that is lost said, the next one says too. Datasets are named as
OpenLineage's naming conventions and its Java client do it (website/docs/spec/naming.md and client/java at 8f02abfb),
topics as Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import DatasetFacet, InputDatasetFacet, RunFacet
from openlineage.client.facet_v2 import dataset_version_dataset as versions
from openlineage.client.facet_v2 import error_message_run as errors
from openlineage.client.facet_v2 import job_type_job as job_types
from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics
from openlineage.client.facet_v2 import schema_dataset as schemas
from openlineage.client.facet_v2 import symlinks_dataset as symlinks

from spark_source.offsets.offsets import Offsets
from spark_source.options.table_uris import is_name
from tubeclient._version import __version__
from tubeclient.keys import PartitionKey
from tubeclient.printable import display_uri
from tubeclient.settings import parse_master_servers
from tubeclient_ingest.rounds.writing import TableCommit
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.tables.table_detail import TableDetail

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BY: Final[dict[str, Any]] = {"producer": f"pkg:pypi/pyspark-tubeclient@{__version__}"}
_PATTERN: Final = job_types.EmissionPattern("EVENT_BASED", "ACCUMULATIVE")
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Schemes that are another one in OpenLineage."""
_OBJECTS: Final = ("s3", "gs", "abfss", "wasbs")
"""Those of stores whose names begin without a slash."""


@attr.define
class TubeclientOffsetsInputDatasetFacet(InputDatasetFacet):
    """Which offsets the run read: of each partition from `start` to before `end`."""

    partitions: list[dict[str, Any]]


class RunLineage:
    """Of one run. `catalog` is the namespace of tables that have names; None if it is not known."""

    def __init__(self, settings: IngestSettings, run_id: str, catalog: str | None) -> None:
        self._settings, self._run_id, self._catalog = settings, run_id, catalog
        self._ranges: dict[PartitionKey, tuple[int, int]] = {}
        self._written: dict[str, TableCommit] = {}
        """By the table's name, its last commit with the counts of all."""

    def read(self, start: Offsets, end: Offsets) -> None:
        """A round has these ranges."""
        for key, last in end.items():
            if last != (first := start.get(key, last)):
                self._ranges[key] = min(first, self._ranges.get(key, (first, 0))[0]), last

    def wrote(self, commit: TableCommit) -> None:
        """A commit of a table; of several tables also at once."""
        if (before := self._written.get(commit.name)) is not None:
            commit = commit._replace(rows=commit.rows + before.rows, bad=commit.bad + before.bad)
        self._written[commit.name] = commit

    def event(self, state: str, at: datetime, error: str | None = None) -> RunEvent:
        """What is known by now; `error` is why the run ended."""
        how, facets = self._settings, dict[str, RunFacet]()
        if error is not None:
            facets["errorMessage"] = errors.ErrorMessageRunFacet(error, "PYTHON", **_BY)
        kind = "BATCH" if how.interval_ms is None else "STREAMING"
        job_type = job_types.JobTypeJobFacet(kind, "TUBECLIENT", "INGEST", _PATTERN, **_BY)
        return RunEvent(
            eventType=RunState(state),
            eventTime=at.isoformat(),
            run=Run(self._run_id, facets),
            job=Job(how.lineage or "", how.consumer_group, {"jobType": job_type}),
            inputs=[*map(self._topic, how.topics)],
            outputs=[*self._tables()],
            **_BY,
        )

    def _topic(self, topic: str) -> InputDataset:
        found = [(str(key), *ends) for key, ends in sorted(self._ranges.items()) if key.topic == topic]
        partitions = [{"partition": key, "start": first, "end": last} for key, first, last in found]
        facet = TubeclientOffsetsInputDatasetFacet(partitions, **_BY)
        master = parse_master_servers(self._settings.master_servers)[0]
        return InputDataset(f"tubemq://{master}", topic, {"tubeclient_offsets": facet} if partitions else {})

    def _tables(self) -> Iterator[OutputDataset]:
        written = [*self._written.values()]
        for commit in written:
            yield self._table(commit.name, commit.table, commit.rows, commit.version)
        last = written[-1].bad_table if written else None
        if last is not None and (bad := sum(commit.bad for commit in written)):  # its version is many jobs'
            yield self._table(self._settings.bad_records or "", last, bad)

    def _table(self, name: str, table: TableDetail, rows: int, version: int | None = None) -> OutputDataset:
        facets: dict[str, DatasetFacet] = {"schema": schemas.SchemaDatasetFacet(_fields(table.columns), **_BY)}
        if version is not None:
            facets["version"] = versions.DatasetVersionDatasetFacet(str(version), **_BY)
        if is_name(name) and self._catalog is not None:
            own = symlinks.Identifier(self._catalog, name.replace("`", ""), "TABLE")
            facets["symlinks"] = symlinks.SymlinksDatasetFacet([own], **_BY)
        count = statistics.OutputStatisticsOutputDatasetFacet(rows, **_BY)
        return OutputDataset(*dataset_name(table.location), {"outputStatistics": count}, facets=facets)


def dataset_name(location: str) -> tuple[str, str]:
    """Namespace and name of the table at a path or URI, without secrets."""
    found = re.fullmatch(r"(?:([A-Za-z][\w+.-]*):)?(?://([^/]*))?(.*)", display_uri(location), re.DOTALL)
    assert found is not None
    scheme, host, path = (found[1] or "file").lower(), found[2] or "", found[3].strip("/")
    scheme = _SCHEMES.get(scheme, scheme)
    return f"{scheme}://{host}" if host else scheme, path if path and scheme in _OBJECTS else f"/{path}"


def catalog_namespace(conf: Callable[[str], str | None]) -> str | None:
    """The namespace of a session's tables that have names; None if no setting of it says which."""
    if host := conf("spark.databricks.workspaceUrl"):
        return f"unitycatalog://{host}"
    uris = conf("spark.hadoop.hive.metastore.uris") or conf("hive.metastore.uris") or ""
    host = uris.partition(",")[0].partition("://")[2]
    return f"hive://{host}" if host else None


def _fields(columns: StructType) -> list[schemas.SchemaDatasetFacetFields]:
    found = []
    for at, column in enumerate(columns, 1):
        inner: Any = column.dataType
        is_struct = inner.typeName() == "struct"
        kind, parts = ("struct", _fields(inner)) if is_struct else (inner.simpleString(), [])
        found.append(schemas.SchemaDatasetFacetFields(column.name, kind, ordinal_position=at, fields=parts))
    return found
