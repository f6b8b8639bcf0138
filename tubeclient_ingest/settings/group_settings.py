"""What the settings of a job of many tables mean for each of its streams, and whether they fit."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import escape, glob
from pathlib import Path
from typing import Any, Final

from spark_source.options.settings_file import dashed
from spark_source.options.table_uris import check_folders, is_name
from tubeclient.admin.inlong_manager import InlongManager
from tubeclient.errors import ConfigurationError
from tubeclient.records.spec import RESCUING
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.inlong_definition import PROPERTY
from tubeclient_ingest.settings.table_by import COUNTS, OWN, REST, StreamId, TableBy

__all__ = [
    "check_group",
    "defines",
    "fits",
    "left_out",
    "manager_of",
    "of_stream",
    "table_by_of",
    "takes",
    "target_of",
]


_OF_MANAGER: Final = ("user", "key", "key_file", "key_env", "tenant", "ca_file")
_ADDRESSES: Final = r"[\w.\[\]:-]+:\d{1,5}(,[\w.\[\]:-]+:\d{1,5})*"
_PATTERNS: Final = ("target", "schema", "schema_from_inlong", "select")


def table_by_of(settings: IngestSettings) -> TableBy:
    """Of a job of many tables."""
    found = TableBy.of(settings)
    assert found is not None
    return found


def check_group(settings: IngestSettings) -> None:
    """ConfigurationError for settings that do not fit the streams, or are for a job of many tables or for an InLong
    group, and it is none."""
    patterns = {name: getattr(settings, name) or "" for name in _PATTERNS}
    table_by = TableBy.of(settings)
    if settings.inlong_group is None:
        given = [name for name in ("inlong_manager", "audit_proxies") if getattr(settings, name)]
        if given:
            raise ConfigurationError(f"{dashed(given[0])} needs inlong-group; name the group")
    if table_by is None:
        given = ["streams"] * bool(settings.streams)
        given += [f"{{stream}} in {name}" for name, text in patterns.items() if "{stream}" in text]
        if given:
            raise ConfigurationError(
                f"{dashed(given[0])} needs inlong-group or table-by, which define what a stream is"
            )
        return
    if settings.select is not None and table_by.reads_columns:
        raise ConfigurationError(
            "select is given, but the tables' columns come from events and may change; give schema, such as a file "
            "for each table"
        )
    if settings.inlong_manager is not None and (settings.schema or settings.schema_from_inlong):
        raise ConfigurationError("inlong-manager, schema and schema-from-inlong all define records; keep one")
    if others := set(settings.manager_options).difference(_OF_MANAGER):
        raise ConfigurationError(f"{min(others)} in inlong-manager is unknown; use one of {', '.join(_OF_MANAGER)}")
    manager_of(settings)
    if settings.audit_proxies is not None and not re.fullmatch(_ADDRESSES, settings.audit_proxies):
        raise ConfigurationError("audit-proxies must look like HOST:PORT,...; the port is usually 10081")
    table_by.check_target(settings.target)
    if own := sorted(name for name in settings.streams if name.removeprefix("!") in OWN):
        raise ConfigurationError(f"streams names {own[0].removeprefix('!')}, which is not a stream")
    names = [StreamId(name) for name in settings.streams if not name.startswith("!") and not is_glob(name)]
    if settings.inlong_group is not None and "raw" in settings.payloads:
        raise ConfigurationError("payload is raw, but a job with inlong-group needs InLong's packs; leave payload out")
    for setting, pattern in _files(settings).items():
        if table_by.is_pattern(pattern) and not glob("*".join(map(escape, table_by.glob(pattern)))):
            raise ConfigurationError(f"{dashed(setting)} is {pattern}, but there is no such file")
        for name in names:
            if not defines(settings, name):
                raise ConfigurationError(f"streams names {name}, but there is no {table_by.filled(pattern, name)}")
    for name in names:
        if not fits(settings, name):
            raise ConfigurationError(
                f"streams names {name}, but {target_of(settings, name)} would be another table of the job, or a name "
                "that catalogs cannot have: their names are lowercase and have no dots"
            )


def is_glob(text: str) -> bool:
    """Whether it stands for any number of streams."""
    return any(char in text for char in "*?[")


def fits(settings: IngestSettings, name: StreamId, *, is_alone: bool = False) -> bool:
    """Whether the stream may have a table: it is no other one of the job, nor another stream's. `is_alone`: no other
    has its name in other case."""
    parts, target = table_by_of(settings).parts(name), target_of(settings, name)
    used = [text for placeholder, text in parts.items() if placeholder in settings.target]
    if is_name(target) and ("." in "".join(used) or not (name == name.lower() or is_alone)):
        return False  # catalogs do not tell case
    identifiers = {"target": target, "bad-records": settings.bad_records, "offsets-table": settings.offsets_table}
    with suppress(ConfigurationError):
        check_folders(identifiers, identifiers)
        return not (settings.key and target.rstrip("`/").endswith("_deletes"))
    return False


def target_of(settings: IngestSettings, name: StreamId) -> str:
    """The table of a stream of the job, or of `COUNTS` or `REST`."""
    return table_by_of(settings).table(settings.target, name)


def of_stream(
    settings: IngestSettings,
    name: StreamId,
    definition: str | None = None,
    schema: str | None = None,
    key: tuple[str, ...] | None = None,
) -> IngestSettings:
    """The settings of a job for one stream alone, or for `REST`. `definition` is Manager's, `schema` the columns,
    and `key` what events say of it."""
    more: dict[str, Any]
    table_by = table_by_of(settings)
    if name in (COUNTS, REST):
        none = ("format", "schema", "schema_from_inlong", "separator", "escape", "encoding", "order_by", "select")
        more = dict.fromkeys(none)
        more |= {"format_options": {}, "key": (), "partition_by": (), "cluster_by": (), "rescue": "none"}
    else:
        given = {setting: getattr(settings, setting) for setting in _PATTERNS}
        more = {setting: table_by.filled(text, name) for setting, text in given.items() if text is not None}
        options = settings.format_options
        more["format_options"] = {option: table_by.filled(text, name) for option, text in options.items()}
    more |= {setting: value for setting, value in (("schema", schema), ("key", key)) if value is not None}
    if definition is not None:
        more["schema_from_inlong"] = definition
        more["table_properties"] = {**settings.table_properties, PROPERTY: definition}
    more |= {"target": target_of(settings, name), "inlong_group": None, "table_by": None, "streams": ()}
    more |= {"inlong_manager": None, "manager_options": {}, "audit_proxies": None}
    if settings.rescue != "none" and settings.format is None and name not in (COUNTS, REST):
        kind = replace(settings, rescue="none", **more).records.kind
        more["rescue"] = settings.rescue if kind in RESCUING else "none"
    # What rows have does not depend on the table they are for.
    return replace(settings, source_options={**settings.own_options, **settings.source_options}, **more)


def manager_of(settings: IngestSettings) -> InlongManager | None:
    """A client of InLong's Manager, which has asked nothing yet; None if the job has none. ConfigurationError."""
    if settings.inlong_manager is None:
        return None
    return InlongManager(settings.inlong_manager, **dict[str, Any](settings.manager_options))


def left_out(settings: IngestSettings) -> set[str]:
    """What the user left out: streams, or patterns of theirs."""
    return {pattern.removeprefix("!") for pattern in settings.streams if pattern.startswith("!")}


def takes(settings: IngestSettings, name: StreamId) -> bool:
    """Whether the job writes the stream, or the user left it out."""
    wanted = [pattern for pattern in settings.streams if not pattern.startswith("!")]
    if name == REST or not any(fnmatchcase(name, pattern) for pattern in left_out(settings)):
        return name == REST or not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
    return False


def defines(settings: IngestSettings, name: StreamId) -> bool:
    """Whether it is known what records of the stream are."""
    table_by = table_by_of(settings)
    files = [pattern for pattern in _files(settings).values() if table_by.is_pattern(pattern)]
    return all(Path(table_by.filled(pattern, name)).is_file() for pattern in files)


def _files(settings: IngestSettings) -> dict[str, str]:
    """Settings that may name a file of each stream."""
    descriptor = settings.format_options.get("descFilePath")
    own = {"schema": settings.schema, "schema_from_inlong": settings.schema_from_inlong, "descFilePath": descriptor}
    own["select"] = settings.select if (settings.select or "").lower().endswith(".sql") else None
    return {name: text for name, text in own.items() if text is not None}
