"""What a program gives a job, with types for editors and type checkers, and the settings that are made of it, of the
command line or of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from spark_source.options.settings_file import SettingsFile, dashed, missing_settings
from tubeclient.arguments import kinds_of
from tubeclient_ingest.settings.group_settings import check_group
from tubeclient_ingest.settings.ingest_settings import IngestSettings

_OPTIONS: Final = {
    "source_options": "source",
    "format_options": "format-options",
    "storage_options": "storage-options",
    "manager_options": "inlong-manager",
    "table_properties": "table-properties",
}
"""The settings that are a table of the file."""
_SECRETS: Final = ("storage_options", "manager_options")


class IngestArguments(TypedDict, total=False):
    """Of `Ingest`; `IngestSettings` says what each means. `master_servers`, `consumer_group`, `target`, and `topics` or
    `inlong_group` are required."""

    master_servers: str
    consumer_group: str
    topics: Sequence[str]
    target: str | Path
    inlong_group: str
    table_by: str
    inlong_manager: str
    audit_proxies: str
    streams: Sequence[str]
    partition_by: Sequence[str]
    cluster_by: Sequence[str]
    table_properties: Mapping[str, str]
    table_format: str
    warehouse: str | Path
    offsets_table: str | Path
    format: Literal["raw", "json", "csv", "kv", "avro", "protobuf", "canal-json", "debezium-json"]
    key: Sequence[str]
    order_by: str
    schema: str | Path
    schema_from_inlong: str | Path
    select: str | Path
    separator: str
    escape: str
    encoding: str
    time_zone: str
    format_options: Mapping[str, str]
    rescue: Literal["none", "fields", "values"]
    evolve: bool
    bad_records: str | Path
    max_bad_records: int
    bad_records_without_value: bool
    starting_offsets: str
    until: str
    former_masters: str
    source_count: int
    max_offsets_per_trigger: int
    trigger: str
    lineage: str
    writer: Literal["auto", "spark", "tasks"]
    source_options: Mapping[str, Any]
    storage_options: Mapping[str, str]
    manager_options: Mapping[str, str]


def load_settings(
    path: Path | None, given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> IngestSettings:
    """The settings of the file, if any, and those `given`, by their fields: what is not None overrides the file.
    `defaults` are for what neither has. Options are merged entry by entry.

    Errors name a setting as a file has it. The ConfigurationError names the file and the entry, never the value of a
    storage option.
    """
    tables = ("ingest", *_OPTIONS.values())
    document: dict[str, dict[str, object]] = {"ingest": {}}
    for name, value in given.items():
        if value is not None and name in _OPTIONS:
            document[_OPTIONS[name]] = value
        elif value is not None:
            value = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
            document["ingest"][dashed(name)] = value
    files = [] if path is None else [SettingsFile(path, tables)]
    values = dict(defaults or {})
    for file in (*files, SettingsFile(None, tables, document)):
        values |= file.settings("ingest", kinds_of(IngestSettings, _OPTIONS))
        for name, table in _OPTIONS.items():
            options = file.secrets(table) if name in _SECRETS else file.options(table)
            prevail = {option.lower() for option in options}  # whatever the case of their names
            below = {option: text for option, text in values.get(name, {}).items() if option.lower() not in prevail}
            values[name] = {**below, **options}
    topics = () if values.get("inlong_group") else ("topics",)
    missing_settings(("master_servers", "consumer_group", *topics, "target"), values)
    settings = IngestSettings(**values)
    check_group(settings)
    return settings
