"""The settings of an ingest job: one frozen value, from a TOML file and the command line."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from spark_source.options.given import parse_options
from spark_source.options.option import Masked
from spark_source.options.parsers import duration_ms
from tubeclient.errors import ConfigurationError
from tubeclient.names import topic_names
from tubeclient.settings import parse_master_servers
from tubeclient_cli.common.moment import moment_ms
from tubeclient_cli.ingest.bad_share import BadShare
from tubeclient_cli.ingest.format_settings import FormatSettings

__all__ = ["AVAILABLE_NOW", "GROUP", "TARGET", "IngestSettings", "load_settings", "query_name", "says_offsets"]

AVAILABLE_NOW: Final = "available-now"

GROUP: Final = "group"
"""Starting offsets: the group's position in the offsets table, whichever job recorded it."""
TARGET: Final = "target"
"""Starting offsets: after the group's last commit to the target, whatever was done to the table since."""

_OF_THEIR_OWN: Final = {
    "masterservers": "master-servers",
    "consumergroup": "consumer-group",
    "subscribe": "topics (--topic)",
    "assign": "topics (--topic)",
    # The source ranks a starting time above startingOffsets, and so above the end of the target's rows.
    "startingoffsets": "starting-offsets",
    "startingtimestamp": "starting-offsets",
    "startingoffsetsbytimestamp": "starting-offsets",
    "startingoffsetsbytimestampstrategy": "starting-offsets",
    "offsetstable": "offsets-table",
    "sourcecount": "source-count",
    "maxoffsetspertrigger": "max-offsets-per-trigger",
}
"""Options of the source, in lower case, that have a setting of the job."""

_STARTING: Final = "starting-offsets"
_STARTING_WORDS: Final = ("earliest", "latest", GROUP, TARGET)

_TABLES: Final = ("ingest", "source", "format-options", "storage-options")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """One ingest job: a group's topics into one Delta table."""

    master_servers: str
    """ "host:port,host:port" of the cluster's masters."""

    consumer_group: str
    topics: tuple[str, ...]

    target: str
    """Path or URI of the Delta table for the rows; the first batch creates it."""

    checkpoint: str
    """Path or URI of Spark's checkpoint. A new one continues where the table ends."""

    offsets_table: str | None = None
    """Path or URI of the Delta table that keeps groups' positions."""

    records: FormatSettings = field(default_factory=FormatSettings)
    """What records mean, and so which columns the target has."""

    evolve: bool = False
    """Whether the job may add columns to a target that lacks them."""
    bad_records: str | None = None
    """Path or URI of the Delta table for records that cannot be parsed; created if missing. None: such a record ends
    the job. Many jobs may share it."""

    max_bad_records: str | None = None
    """The most bad records of one batch: a number, as "100", or a share, as "5%". A batch with more ends the job before
    anything of it is written. None: any number."""

    starting_offsets: str | None = None
    """Where the job begins in topics without rows of the group in the target: earliest, latest, JSON, or a time such as
    2026-11-21T10:31Z (the times that producers write on messages). None: the group's position in the offsets table,
    otherwise earliest. "group": the position in the offsets table, even past the target's rows. "target": as None, and
    after the group's last commit to the target, whatever rows were removed from the table since."""

    former_masters: str | None = None
    """ "host:port,host:port" of the cluster's earlier masters, if it has none of them any more. Rows of a cluster that
    shares no master with this one count as another cluster's."""

    begin_anew: tuple[str, ...] = ()
    """A new checkpoint begins these topics by `starting_offsets`, wherever their rows in the target or the offsets
    table end. For topics that were created again. Valid for one checkpoint, so not allowed in a settings file."""

    source_count: int | None = None
    max_offsets_per_trigger: int | None = None

    trigger: str = AVAILABLE_NOW
    """`available-now`: read what there is and end. Or how often to start a batch, such as "10s"; "0s": without a
    pause."""

    source_options: Mapping[str, str] = field(default_factory=dict)
    """Further options of format("tubeclient"), unchanged."""

    storage_options: Mapping[str, str] = field(default_factory=lambda: Masked({}))
    """delta-rs's options for the offsets table's storage; never printed."""

    stop_timeout_s: float = 60.0
    """How long a stop waits for the running batch, in seconds. A batch that is cut off is read again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage_options", Masked(self.storage_options))
        for name in self.source_options:
            flag = _OF_THEIR_OWN.get(name.lower())
            if flag is not None:
                raise ConfigurationError(f"option {name} has a setting of its own, {flag}; set it there")
        for name in ("target", "checkpoint"):
            if not getattr(self, name).strip():
                raise ConfigurationError(f"{name} is blank; name a folder")
        self._check_bad_records()
        if self.stop_timeout_s <= 0:
            raise ConfigurationError(f"the stop timeout is {self.stop_timeout_s} s; it must be above 0")
        _ = self.interval_ms
        object.__setattr__(self, "starting_offsets", _checked_starting(self.starting_offsets))
        parse_options(self.options(self.fallback))
        _ = self.former_master_servers
        strange = sorted(set(self.begin_anew).difference(self.topics))
        if strange:
            raise ConfigurationError(f"begin-anew names {', '.join(strange)}, which the job does not read")
        if self.begin_anew and self.starting_offsets == GROUP:
            raise ConfigurationError(
                "begin-anew ignores the group's positions, and starting-offsets group uses them; remove one of the two"
            )

    def _check_bad_records(self) -> None:
        if self.bad_records is None:
            if self.max_bad_records is not None:
                raise ConfigurationError("max-bad-records is for a job with bad-records; name a table for them")
            return
        if not self.bad_records.strip():
            raise ConfigurationError("bad-records is blank; name a folder")
        for name in ("target", "offsets_table", "checkpoint"):
            other = getattr(self, name)
            if other is not None and _overlap(other, self.bad_records):
                raise ConfigurationError(
                    f"bad-records and {name.replace('_', '-')} are the same folder, or one is within the other; bad "
                    "records need a table of their own"
                )
        _ = self.bad_share

    @property
    def bad_share(self) -> BadShare | None:
        """`max_bad_records`, parsed."""
        return BadShare.parse(self.max_bad_records) if self.max_bad_records is not None else None

    @property
    def former_master_servers(self) -> tuple[str, ...]:
        """`former_masters` as a tuple."""
        return parse_master_servers(self.former_masters) if self.former_masters is not None else ()

    @property
    def fallback(self) -> str:
        """Where unknown topics begin: a value of the source's startingOffsets, JSON, or a time."""
        return "earliest" if self.starting_offsets in (None, TARGET) else self.starting_offsets

    @property
    def interval_ms(self) -> int | None:
        """Milliseconds between the starts of two batches; None for available-now."""
        if self.trigger == AVAILABLE_NOW:
            return None
        try:
            return duration_ms(0)(self.trigger)
        except ValueError as error:
            raise ConfigurationError(f"trigger {error}; or write {AVAILABLE_NOW}") from None

    def options(self, starting: str) -> dict[str, str]:
        """The options of format("tubeclient") for a query that starts at `starting`: a value of the option
        startingOffsets, or a time. Holds secrets."""
        at_ms = moment_ms(starting, _STARTING)
        if at_ms is None:
            begin = {"startingOffsets": starting}
        else:
            # If all messages are older than the time, begin with the next message.
            begin = {"startingTimestamp": str(at_ms), "startingOffsetsByTimestampStrategy": "latest"}
        keep = self.bad_records is not None and "badmessages" not in map(str.lower, self.source_options)
        options = {
            **({"badMessages": "keep"} if keep else {}),
            **self.source_options,
            "masterServers": self.master_servers,
            "consumerGroup": self.consumer_group,
            "subscribe": ",".join(topic_names(self.topics)),
            **begin,
        }
        optional = {
            "offsetsTable": self.offsets_table,
            "sourceCount": self.source_count,
            "maxOffsetsPerTrigger": self.max_offsets_per_trigger,
        }
        options.update({name: str(value) for name, value in optional.items() if value is not None})
        options.update({f"storageOption.{name}": value for name, value in self.storage_options.items()})
        return options


def _overlap(one: str, other: str) -> bool:
    """Whether one of two paths or URIs is the other's folder or within it, as far as their texts tell."""

    def plain(place: str) -> str:
        place = place.strip()
        if place.lower().startswith("file:"):
            place = "/" + place[len("file:") :].lstrip("/")
        scheme, mark, rest = place.partition("://")
        # Hadoop and delta-rs name S3 differently.
        scheme = "s3" if scheme.lower() in ("s3a", "s3n") else scheme.lower()
        whole = f"{scheme}{mark}{rest}" if mark else os.path.abspath(place)
        return f"{whole.rstrip('/')}/"

    first, second = plain(one), plain(other)
    return first.startswith(second) or second.startswith(first)


def query_name(consumer_group: str) -> str:
    """The name of a job's query, in Spark's UI and in metrics."""
    return f"ingest {consumer_group}"


def says_offsets(starting: str | None) -> bool:
    """Whether a value of starting-offsets is JSON of partitions and offsets."""
    return starting is not None and starting.lstrip().startswith("{")


def _checked_starting(text: str | None) -> str | None:
    if text is None or says_offsets(text):
        return text
    if (word := text.strip().lower()) in _STARTING_WORDS:
        return word
    if moment_ms(text, _STARTING) is None:
        raise ConfigurationError(
            f"{_STARTING} is {text!r}; write earliest, latest, group, target, a time as 2026-11-21T10:31Z, or JSON "
            'from partition keys to offsets, as in {"1:clicks:0": 2800, "default": "earliest"}'
        )
    return text


def load_settings(path: Path | None, overrides: Mapping[str, Any]) -> IngestSettings:
    """Read the settings file, if any; values of `overrides` that are not None override it.

    Either may have the fields of FormatSettings as well. Options are merged entry by entry. The ConfigurationError
    names the file and the entry, never the value of a storage option.
    """
    values = {} if path is None else _read(path)
    for name, value in overrides.items():
        if value is None:
            continue
        values[name] = {**values.get(name, {}), **value} if isinstance(value, Mapping) else value
    missing = [f.name for f in fields(IngestSettings) if f.name in _REQUIRED and f.name not in values]
    if missing:
        flags = ", ".join("--topic" if name == "topics" else f"--{name.replace('_', '-')}" for name in missing)
        raise ConfigurationError(f"not given, neither on the command line nor in a settings file: {flags}")
    records = FormatSettings(**{name: values.pop(name) for name in _OF_RECORDS if name in values})
    return replace(IngestSettings(**values, records=records))


_REQUIRED: Final = ("master_servers", "consumer_group", "topics", "target", "checkpoint")
_OF_RECORDS: Final = tuple(f.name for f in fields(FormatSettings))
_IN_FILE: Final = {
    name.replace("_", "-"): name
    for name in (*(f.name for f in fields(IngestSettings)), *_OF_RECORDS)
    if name not in ("source_options", "storage_options", "format_options", "records", "begin_anew")
}


def _read(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # The error gives line and column. The line itself may hold a secret.
        raise ConfigurationError(f"the settings file {path} is not TOML: {error}") from None
    for name in document:
        if name not in _TABLES:
            raise ConfigurationError(f"{path}: [{name}] is unknown; {_nearest(name, _TABLES)}")
    values = {}
    for name, value in _table(document, "ingest", path).items():
        if name not in _IN_FILE:
            raise ConfigurationError(f"{path}: {name} in [ingest] is unknown; {_nearest(name, list(_IN_FILE))}")
        values[_IN_FILE[name]] = _checked(name, value, path)
    values["source_options"] = {k: _option(v) for k, v in _table(document, "source", path).items()}
    values["format_options"] = {k: _option(v) for k, v in _table(document, "format-options", path).items()}
    secrets = _table(document, "storage-options", path)
    values["storage_options"] = {name: _secret(name, value, path) for name, value in secrets.items()}
    return values


def _table(document: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{path}: {name} is not a table; write [{name}] and its entries below")
    return table


def _checked(name: str, value: object, path: Path) -> object:
    if name == "topics":
        if isinstance(value, list) and all(isinstance(topic, str) for topic in value):
            return tuple(value)
        raise ConfigurationError(f'{path}: topics in [ingest] must be a list of names, such as ["clicks", "views"]')
    if name == "max-bad-records" and type(value) is int:
        return str(value)
    if name in ("source-count", "max-offsets-per-trigger"):
        wanted: tuple[type, ...] = (int,)
    elif name == "evolve":
        return value if isinstance(value, bool) else _wrong(name, "true or false", path)
    elif name == "stop-timeout-s":
        return float(value) if isinstance(value, int | float) else _wrong(name, "a number", path)
    else:
        wanted = (str,)
    if not isinstance(value, wanted) or isinstance(value, bool):
        return _wrong(name, "a whole number" if wanted == (int,) else "a text in quotes", path)
    return value


def _wrong(name: str, kind: str, path: Path) -> object:
    raise ConfigurationError(f"{path}: {name} in [ingest] must be {kind}")


def _option(value: object) -> str:
    """The value in the form that Spark's .option() uses."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _secret(name: str, value: object, path: Path) -> str:
    """A text, or {env = "NAME"}: the value of that environment variable."""
    if isinstance(value, Mapping) and set(value) == {"env"}:
        variable = str(value["env"])
        if variable not in os.environ:
            raise ConfigurationError(f"{path}: {name} names the environment variable {variable}, which is not set")
        return os.environ[variable]
    if not isinstance(value, str):
        raise ConfigurationError(f'{path}: {name} in [storage-options] must be a text, or {{env = "NAME"}}')
    return value


def _nearest(name: str, known: tuple[str, ...] | list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
