"""Bad records that can be parsed by now: from the dead-letter table to the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_source.typed.record_format import as_records_mean
from tubeclient_cli.common.session import check_classic
from tubeclient_cli.ingest.batch_writer import BatchWriter, Retried
from tubeclient_cli.ingest.settings import IngestSettings
from tubeclient_cli.ingest.sink import DeltaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["retry_bad_records"]


def retry_bad_records(
    spark: SparkSession, settings: IngestSettings, reason: str | None, *, dry_run: bool = False
) -> Retried:
    """Move the bad records of a job that its format can parse by now; `reason` is a part of their reason, None chooses
    all. With `dry_run` only count them. Raises ConfigurationError."""
    check_classic(spark)
    sink = DeltaSink(spark, settings.target, settings.consumer_group, evolve=settings.evolve)
    writer = BatchWriter(spark, settings, sink, settings.records.record_format())
    writer.open(create=False)
    with as_records_mean(spark):
        return writer.retry(reason, dry_run=dry_run)
