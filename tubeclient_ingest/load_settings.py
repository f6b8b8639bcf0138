"""Makes a job's settings of what a file, the command line or a program gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spark_source.options.settings_file import SettingsFile, dashed, kinds_of, missing_settings
from tubeclient_ingest.settings import IngestSettings

_OPTIONS: Final = {
    "source_options": "source",
    "format_options": "format-options",
    "storage_options": "storage-options",
    "manager_options": "inlong-manager",
    "table_properties": "table-properties",
}
"""The settings that are a table of the file."""
_SECRETS: Final = ("storage_options", "manager_options")


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
            prevail = {one.lower() for one in options}  # whatever the case of their names
            below = {one: text for one, text in values.get(name, {}).items() if one.lower() not in prevail}
            values[name] = {**below, **options}
    topics = () if values.get("inlong_group") else ("topics",)
    missing_settings(("master_servers", "consumer_group", *topics, "target"), values)
    return IngestSettings(**values)
