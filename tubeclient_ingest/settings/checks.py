"""Whether the settings of a job fit: each alone, with each other, and with the source's options. ConfigurationError."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from spark_source.options.given import parse_options
from spark_source.options.parsers import moment_ms
from spark_source.options.settings_file import check_own, dashed
from spark_source.options.table_uris import check_folders, is_name, table_of_deletes
from spark_source.typed.format_settings import FormatSettings
from tubeclient.errors import ConfigurationError
from tubeclient.records.spec import RESCUING, check_rescue
from tubeclient_ingest.settings.ending import check_until
from tubeclient_ingest.settings.ingest_settings import (
    AVAILABLE_NOW,
    DELTA,
    GROUP,
    ICEBERG,
    SPARK,
    TABLE_FORMATS,
    TARGET,
    WRITERS,
    IngestSettings,
)
from tubeclient_ingest.settings.table_by import TableBy

if TYPE_CHECKING:
    from spark_source.options.source_options import SourceOptions

_PLACES: Final = ("bad_records", "target", "offsets_table")
_STARTING_WORDS: Final = ("earliest", "latest", GROUP, TARGET)
_OF_THEIR_OWN: Final = {
    "masterservers": "master-servers",
    "consumergroup": "consumer-group",
    "subscribe": "topics",
    "assign": "topics",
    # The source ranks a starting time above startingOffsets, and so above the end of the target's rows.
    "startingoffsets": "starting-offsets",
    "startingtimestamp": "starting-offsets",
    "startingoffsetsbytimestamp": "starting-offsets",
    "endingoffsets": "until",
    "endingtimestamp": "until",
    "offsetstable": "offsets-table",
    "sourcecount": "source-count",
    "maxoffsetspertrigger": "max-offsets-per-trigger",
}
"""Options of the source, in lower case, that have a setting of the job."""


def places_of(settings: IngestSettings) -> dict[str, str | None]:
    """The job's tables as it looks for them, no two in one place."""
    check_own(settings.source_options, _OF_THEIR_OWN)
    identifiers = {dashed(name): getattr(settings, name) for name in _PLACES}
    if settings.key:
        identifiers["the table of deletes"] = table_of_deletes(settings.target)
    identifiers = check_folders(identifiers, {"bad-records", "target", "the table of deletes"})
    return {name: identifiers.get(dashed(name)) for name in _PLACES}


def check_values(settings: IngestSettings) -> None:
    """See whether the values fit, and fit together."""
    if settings.partition_by and settings.cluster_by:
        raise ConfigurationError("partition-by and cluster-by exclude each other in Delta; remove one")
    if settings.max_bad_records is not None:
        if settings.bad_records is None:
            raise ConfigurationError("max-bad-records needs bad-records; name a table for them")
        if settings.max_bad_records < 0:
            raise ConfigurationError(f"max-bad-records is {settings.max_bad_records}; it must be 0 or more")
    if settings.bad_records_without_value and settings.bad_records is None:
        raise ConfigurationError("bad-records-without-value needs bad-records; name a table for them")
    if settings.lineage is not None and not settings.lineage.strip():
        raise ConfigurationError("lineage is blank; name a namespace for the job")
    if settings.writer not in WRITERS:
        raise ConfigurationError(f"writer is {settings.writer!r}; write {', '.join(WRITERS[:-1])} or {WRITERS[-1]}")
    _check_table_format(settings)
    FormatSettings.check_format(settings.format)
    check_rescue(settings.rescue, settings.format or RESCUING[0])
    if not (settings.topics or settings.inlong_group):
        raise ConfigurationError("these settings are missing: topics")
    _ = settings.zone, settings.interval_ms, settings.former_master_servers
    table_by = TableBy.of(settings)
    texts = f"{settings.schema}{settings.schema_from_inlong}{settings.format_options}"
    if table_by is None or not (table_by.is_pattern(texts) or table_by.reads_columns):
        _ = settings.records


def _check_table_format(settings: IngestSettings) -> None:
    if settings.table_format not in TABLE_FORMATS:
        raise ConfigurationError(f"table-format is {settings.table_format!r}; write {' or '.join(TABLE_FORMATS)}")
    warehouse = settings.warehouse
    if settings.table_format == DELTA:
        if warehouse is not None:
            raise ConfigurationError(f"warehouse is for table-format {ICEBERG}; set that, or leave warehouse out")
        return
    if warehouse is not None and (not os.path.isabs(warehouse) or re.search("[#?%\\n]", warehouse)):
        raise ConfigurationError(
            f"warehouse is {warehouse!r}, but must be the absolute path of a folder, without #, ? or %"
        )
    least = 2 if warehouse is not None else 3
    for name, identifier in (("target", settings.target), ("bad-records", settings.bad_records)):
        if identifier is not None and (not is_name(identifier) or identifier.count(".") < least - 1):
            parts = "NAMESPACE.TABLE" if warehouse is not None else "CATALOG.NAMESPACE.TABLE"
            raise ConfigurationError(f"{name} is {identifier}; with table-format {ICEBERG} name it as {parts}")
    no = {"key": settings.key, "cluster-by": settings.cluster_by, "writer spark": settings.writer == SPARK}
    if found := next((name for name, value in no.items() if value), None):
        raise ConfigurationError(
            f"{found} is for table-format {DELTA}: pyiceberg cannot write equality deletes, cluster tables or use "
            "Spark. Leave it out, or write to Delta"
        )


def checked_starting(text: str | None) -> str | None:
    """`starting-offsets` as the job has it."""
    if text is None or text.lstrip().startswith("{"):
        return text
    if (word := text.strip().lower()) in _STARTING_WORDS:
        return word
    if moment_ms(text, "starting-offsets") is None:
        raise ConfigurationError(
            f"starting-offsets is {text!r}; write earliest, latest, group, target, a time such as 2026-11-21T10:31Z, "
            'or JSON from partition keys to offsets, as in {"1:clicks:0": 2800, "default": "earliest"}'
        )
    return text


def check_source(settings: IngestSettings) -> tuple[str, tuple[str, ...]]:
    """See whether the source takes its options, and the job the columns that they name. Returns the source's names of
    the group and of the topics."""
    given = parse_options(settings.options(settings.fallback))
    given.check_stream()
    if (end := settings.end) is not None:
        if settings.interval_ms is not None:
            raise ConfigurationError(
                f"until is for a job that ends, but with trigger {settings.trigger} the job keeps running; use "
                f"trigger {AVAILABLE_NOW}"
            )
        check_until(end, given.start_of("stream"))
    _check_columns(settings, given)
    return given.consumer_group, given.subscribe


def _check_columns(settings: IngestSettings, given: SourceOptions) -> None:
    there = set(map(str.lower, given.columns))
    if not there:
        return
    table_by, usual = TableBy.of(settings), "*" in there
    if table_by is not None:
        needed = ["partitionKey", *table_by.needs, "messageTime" if given.payload == "raw" else "dataTime"]
        if missing := [name for name in needed if name.lower() not in there and not (usual and name != "attributes")]:
            raise ConfigurationError(
                f"the source's option columns lacks {', '.join(missing)}, which give a row's table and minute; add them"
            )
    if not usual and (settings.schema or settings.schema_from_inlong or settings.bad_records):
        # A record that cannot be parsed is named, or kept, by its place and its bytes.
        needed = ["topic", "partitionKey", "messageId", "value", *["recordIndex"] * (given.payload != "raw")]
        if missing := [name for name in needed if name.lower() not in there]:
            raise ConfigurationError(
                f"the source's option columns lacks {', '.join(missing)}. The job needs them to parse records and"
                " to name bad ones; add them"
            )
