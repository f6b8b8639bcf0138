"""What the settings of an InLong group's job mean for each of its streams, and whether they fit."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from glob import escape, glob
from pathlib import Path
from typing import Any, Final

from spark_source.options.settings_file import dashed
from spark_source.options.table_uris import check_folders, is_name
from tubeclient.admin.inlong_manager import InlongManager
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.inlong_definition import PROPERTY
from tubeclient_ingest.settings import STREAM, IngestSettings

__all__ = [
    "COUNTS",
    "REST",
    "StreamId",
    "check_group",
    "defines",
    "fits",
    "left_out",
    "manager_of",
    "of_stream",
    "takes",
    "target_of",
]


class StreamId(str):
    """What may stand for `STREAM` in a path or a name: a stream's id that `FORM` allows, or `COUNTS` or `REST`, which
    are no stream's. Anybody who may send chooses ids. ConfigurationError for others."""

    __slots__ = ()
    FORM: Final = "[A-Za-z0-9-][A-Za-z0-9_.-]{0,199}"
    """For Java and Python, of the whole id. It is one folder, and none that Spark passes over. InLong's sinks have no
    longer ids."""

    def __new__(cls, text: str) -> StreamId:
        if re.fullmatch(cls.FORM, text) is None and text not in _OWN:
            raise ConfigurationError(
                f"stream {text!r} cannot name a table: that takes 1 to 200 letters, digits, _, . and -, of which the"
                " first is none of _ and ."
            )
        return super().__new__(cls, text)


_OWN: Final = ("_counts", "_rest")
COUNTS: Final = StreamId(_OWN[0])
"""In place of the stream in the target: the counts table."""
REST: Final = StreamId(_OWN[1])
"""In place of the stream in the target: the table, in the source's columns, for rows of streams that are not defined
and of messages that are of no stream of the group."""

_OF_MANAGER: Final = ("user", "key", "key_file", "key_env", "tenant", "ca_file")
_ADDRESSES: Final = r"[\w.\[\]:-]+:\d{1,5}(,[\w.\[\]:-]+:\d{1,5})*"
_PATTERNS: Final = ("target", "schema", "schema_from_inlong")


def check_group(settings: IngestSettings) -> None:
    """ConfigurationError for settings that do not fit a group's streams, or are for a group and there is none."""
    group, patterns = settings.inlong_group, {name: getattr(settings, name) or "" for name in _PATTERNS}
    if group is None:
        given = [name for name in ("streams", "inlong_manager", "audit_proxies") if getattr(settings, name)]
        given += [f"{STREAM} in {name}" for name, text in patterns.items() if STREAM in text]
        if given:
            raise ConfigurationError(f"{dashed(given[0])} is for a job with inlong-group; name the group")
        return
    if settings.inlong_manager is not None and (settings.schema or settings.schema_from_inlong):
        raise ConfigurationError("inlong-manager, schema and schema-from-inlong say what records are; keep one")
    if others := set(settings.manager_options).difference(_OF_MANAGER):
        raise ConfigurationError(f"{min(others)} in inlong-manager is unknown; there are {', '.join(_OF_MANAGER)}")
    manager_of(settings)
    if settings.audit_proxies is not None and not re.fullmatch(_ADDRESSES, settings.audit_proxies):
        raise ConfigurationError("audit-proxies must be as HOST:PORT,...; the port is mostly 10081")
    names = [StreamId(one) for one in settings.streams if not one.startswith("!")]
    if STREAM not in patterns["target"]:
        raise ConfigurationError(
            f"target is {settings.target} for all streams of the group; write {STREAM} where a stream's id belongs"
        )
    if own := left_out(settings).union(names).intersection(_OWN):
        raise ConfigurationError(f"streams names {min(own)}, which is no stream")
    if len({one.startswith("!") for one in settings.streams}) > 1:
        raise ConfigurationError("streams names some to write and, with !, some to leave out; keep one of the two")
    if any(name.lower() == "payload" and value.lower() == "raw" for name, value in settings.source_options.items()):
        raise ConfigurationError("payload is raw, and a job with inlong-group needs InLong's packs; leave it out")
    for setting, pattern in _files(settings).items():
        if STREAM in pattern and not glob("*".join(map(escape, pattern.split(STREAM)))):
            raise ConfigurationError(f"{dashed(setting)} is {pattern}, and there is no such file")
        for name in names:
            if not defines(settings, name):
                raise ConfigurationError(f"streams names {name}, and there is no {pattern.replace(STREAM, name)}")
    for name in names:
        if not fits(settings, name):
            raise ConfigurationError(
                f"streams names {name}, and {target_of(settings, name)} would be another table of the job, or one that"
                " catalogs do not have: their names are in small letters and without dots"
            )


def fits(settings: IngestSettings, name: StreamId, *, is_alone: bool = False) -> bool:
    """Whether the stream may have a table: it is no other one of the job, nor another stream's. `is_alone`: no other
    has its name in other case."""
    target = target_of(settings, name)
    if is_name(target) and ("." in name or not (name == name.lower() or is_alone)):
        return False  # catalogs do not tell case
    places = {"target": target, "bad-records": settings.bad_records, "offsets-table": settings.offsets_table}
    with suppress(ConfigurationError):
        check_folders(places, places)
        return not (settings.key and target.rstrip("`/").endswith("_deletes"))
    return False


def target_of(settings: IngestSettings, name: StreamId) -> str:
    """The table of a stream of the group, or of `COUNTS` or `REST`."""
    target = settings.target
    if is_name(target) and re.fullmatch(r"[A-Za-z_]\w*", name) is None:
        target = re.sub(rf"`?([^.`]*{STREAM}[^.`]*)`?", r"`\1`", target)
    return target.replace(STREAM, name)


def of_stream(settings: IngestSettings, name: StreamId, definition: str | None = None) -> IngestSettings:
    """The settings of a job for one stream of the group alone, or for `REST`. `definition` is Manager's."""
    more: dict[str, Any]
    if name in (COUNTS, REST):
        more = dict.fromkeys(("format", "schema", "schema_from_inlong", "separator", "escape", "encoding", "order_by"))
        more |= {"format_options": {}, "key": (), "partition_by": (), "cluster_by": ()}
    else:
        more = {one: text.replace(STREAM, name) for one in _PATTERNS if (text := getattr(settings, one)) is not None}
        more["format_options"] = {one: text.replace(STREAM, name) for one, text in settings.format_options.items()}
    if definition is not None:
        more["schema_from_inlong"] = definition
        more["table_properties"] = {**settings.table_properties, PROPERTY: definition}
    more |= {"target": target_of(settings, name), "inlong_group": None, "streams": ()}
    more |= {"inlong_manager": None, "manager_options": {}, "audit_proxies": None}
    # What rows have does not depend on the table they are for.
    return replace(settings, source_options={"payload": "auto", **settings.source_options}, **more)


def manager_of(settings: IngestSettings) -> InlongManager | None:
    """A client of InLong's Manager, which has asked nothing yet; None if the job has none. ConfigurationError."""
    if settings.inlong_manager is None:
        return None
    return InlongManager(settings.inlong_manager, **dict[str, Any](settings.manager_options))


def left_out(settings: IngestSettings) -> set[StreamId]:
    """The streams that the user left out by their names."""
    return {StreamId(one.removeprefix("!")) for one in settings.streams if one.startswith("!")}


def takes(settings: IngestSettings, name: StreamId) -> bool:
    """Whether the job writes the stream, or the user left it out."""
    out = left_out(settings)
    return name == REST or not settings.streams or (name not in out if out else name in settings.streams)


def defines(settings: IngestSettings, name: StreamId) -> bool:
    """Whether it is known what records of the stream are."""
    return all(Path(text.replace(STREAM, name)).is_file() for text in _files(settings).values() if STREAM in text)


def _files(settings: IngestSettings) -> dict[str, str]:
    """Settings that may name a file of each stream."""
    descriptor = settings.format_options.get("descFilePath")
    own = {"schema": settings.schema, "schema_from_inlong": settings.schema_from_inlong, "descFilePath": descriptor}
    return {name: text for name, text in own.items() if text is not None}
