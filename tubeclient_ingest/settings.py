"""The settings of an ingest job: one frozen value, from a TOML file and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from spark_source.offsets.offset_spec import OffsetSpec
from spark_source.options.given import find_option, parse_options
from spark_source.options.option import Masked
from spark_source.options.parsers import duration_ms, moment_ms
from spark_source.options.settings_file import (
    NUMBER_OR_TEXT,
    SettingsFile,
    check_own,
    dashed,
    kinds_of,
    missing_settings,
)
from spark_source.options.source_options import SourceOptions
from spark_source.options.table_uris import check_folders
from spark_source.typed.format_settings import FormatSettings
from tubeclient.errors import ConfigurationError
from tubeclient.names import topic_names
from tubeclient.settings import parse_master_servers
from tubeclient_ingest.bad_share import BadShare

__all__ = ["AVAILABLE_NOW", "GROUP", "TARGET", "IngestSettings", "load_settings"]

AVAILABLE_NOW: Final = "available-now"

GROUP: Final = "group"
"""Starting offsets: the group's position in the offsets table, whichever job recorded it."""
TARGET: Final = "target"
"""Starting offsets: after the group's last commit to the target, whatever was done to the table since."""

_OF_THEIR_OWN: Final = {
    "masterservers": "master-servers",
    "consumergroup": "consumer-group",
    "subscribe": "topics",
    "assign": "topics",
    # The source ranks a starting time above startingOffsets, and so above the end of the target's rows.
    "startingoffsets": "starting-offsets",
    "startingtimestamp": "starting-offsets",
    "startingoffsetsbytimestamp": "starting-offsets",
    "offsetstable": "offsets-table",
    "sourcecount": "source-count",
    "maxoffsetspertrigger": "max-offsets-per-trigger",
}
"""Options of the source, in lower case, that have a setting of the job."""

_PARSED: Final = {
    "consumer_group": "consumerGroup",
    "topics": "subscribe",
    "source_count": "sourceCount",
    "max_offsets_per_trigger": "maxOffsetsPerTrigger",
}
"""Settings that are checked as the source's options are."""

_STARTING_WORDS: Final = ("earliest", "latest", GROUP, TARGET)

_TABLES: Final = ("ingest", "source", "format-options", "storage-options", "table-properties")
_OPTION_FIELDS: Final = ("source_options", "format_options", "storage_options", "table_properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """One ingest job: a group's topics into one Delta table."""

    master_servers: str
    """ "host:port,host:port" of the cluster's masters."""

    consumer_group: str
    topics: tuple[str, ...]

    target: str
    """The Delta table for the rows: a path or URI, which has a slash, or a name as catalog.schema.table. Made if it is
    missing."""

    offsets_table: str | None = None
    """Path or URI of the Delta table that keeps groups' positions."""

    records: FormatSettings = field(default_factory=FormatSettings)
    """What records mean, and so which columns the target has."""

    evolve: bool = False
    """Whether the job may add columns to a target that lacks them."""
    bad_records: str | None = None
    """The Delta table for records that cannot be parsed, as `target`; made if missing. None: such a record ends the
    job. Many jobs may share it."""

    max_bad_records: str | None = None
    """The most bad records of one round: a number, as "100", or a share, as "5%". A round with more ends the job before
    anything of it is written. None: any number."""

    starting_offsets: str | None = None
    """Where the job begins in topics without rows of the group in the target: earliest, latest, JSON, or a time such as
    2026-11-21T10:31Z (the times that producers write on messages). None: the group's position in the offsets table,
    otherwise earliest. "group": the position in the offsets table, even past the target's rows. "target": as None, and
    after the group's last commit to the target, whatever rows were removed from the table since."""

    former_masters: str | None = None
    """ "host:port,host:port" of the cluster's earlier masters, if it has none of them any more. Rows of a cluster that
    shares no master with this one count as another cluster's."""

    partition_by: tuple[str, ...] = ()
    """Columns by which a new target is partitioned."""
    cluster_by: tuple[str, ...] = ()
    """Columns by which a new target is clustered."""
    table_properties: Mapping[str, str] = field(default_factory=dict)
    """Delta's properties of a new target, as delta.autoOptimize.autoCompact."""

    source_count: int | None = None
    max_offsets_per_trigger: int | None = None

    trigger: str = AVAILABLE_NOW
    """`available-now`: read what there is and end. Or how often to start a round, such as "10s"; "0s": without a
    pause."""

    source_options: Mapping[str, str] = field(default_factory=lambda: Masked({}))
    """Further options of format("tubeclient"), unchanged."""

    storage_options: Mapping[str, str] = field(default_factory=lambda: Masked({}))
    """delta-rs's options for the offsets table's storage; never printed."""

    stop_timeout_s: float = 60.0
    """How long a stop waits for the running round, in seconds. A round that is cut off is read again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source_options", Masked(self.source_options))
        object.__setattr__(self, "storage_options", Masked(self.storage_options))
        check_own(self.source_options, _OF_THEIR_OWN)
        places = ("bad_records", "target", "offsets_table")
        given_places = check_folders(
            {dashed(name): getattr(self, name) for name in places}, {dashed(name) for name in places[:2]}
        )
        for name in places:
            object.__setattr__(self, name, given_places.get(dashed(name)))
        if self.partition_by and self.cluster_by:
            raise ConfigurationError("partition-by and cluster-by exclude each other in Delta; remove one")
        if self.bad_records is None and self.max_bad_records is not None:
            raise ConfigurationError("max-bad-records is for a job with bad-records; name a table for them")
        _ = self.bad_share
        if self.stop_timeout_s <= 0:
            raise ConfigurationError(f"the stop timeout is {self.stop_timeout_s} s; it must be above 0")
        _ = self.interval_ms
        object.__setattr__(self, "starting_offsets", _checked_starting(self.starting_offsets))
        self._check_parsed()
        given = parse_options(self.options(self.fallback))
        # As the source has them: what the target records by name is looked for by these.
        object.__setattr__(self, "consumer_group", given.consumer_group)
        object.__setattr__(self, "topics", given.subscribe)
        self._check_columns(given)

    def _check_columns(self, given: SourceOptions) -> None:
        """A record that cannot be parsed is told, or kept, by its place and its bytes."""
        has_schema = self.records.schema is not None or self.records.schema_from_inlong is not None
        if not given.columns or "*" in given.columns or not (has_schema or self.bad_records is not None):
            return
        needed = ["topic", "partitionKey", "messageId", "value", *["recordIndex"] * (given.payload != "raw")]
        if self.bad_records is not None:  # a retry chooses bad records of what the job reads by their tags
            needed += ["messageType"] * bool(given.filters)
        present = {name.lower() for name in given.columns}
        missing = [name for name in needed if name.lower() not in present]
        if missing:
            raise ConfigurationError(
                f"the source's option columns lacks {', '.join(missing)}. The job needs them to parse records and to"
                " name bad ones; add them"
            )

    def _check_parsed(self) -> None:
        """Raise what the source would raise for its options, with the settings' names."""
        _ = self.former_master_servers
        self._masters("master_servers")
        for name, option in _PARSED.items():
            value = getattr(self, name)
            if value is None:
                continue
            found = find_option(option)
            assert found is not None
            try:
                found.parse(",".join(topic_names(value)) if name == "topics" else str(value))
            except ValueError as error:
                raise ConfigurationError(f"{dashed(name)} {error}") from None
        if _says_offsets(self.starting_offsets):
            OffsetSpec.parse(self.fallback, "starting-offsets")

    def _masters(self, name: str) -> tuple[str, ...]:
        text = getattr(self, name)
        return () if text is None else parse_master_servers(text, setting=dashed(name), user_setting="authUser")

    @property
    def bad_share(self) -> BadShare | None:
        """`max_bad_records`, parsed."""
        text = self.max_bad_records
        return None if text is None else BadShare.parse(text)

    @property
    def former_master_servers(self) -> tuple[str, ...]:
        """`former_masters` as a tuple."""
        return self._masters("former_masters")

    @property
    def fallback(self) -> str:
        """Where unknown topics begin: a value of the source's startingOffsets, JSON, or a time."""
        if self.starting_offsets == GROUP:
            return "group:earliest"
        return "earliest" if self.starting_offsets in (None, TARGET) else self.starting_offsets

    @property
    def interval_ms(self) -> int | None:
        """Milliseconds between the starts of two rounds; None for available-now."""
        if self.trigger == AVAILABLE_NOW:
            return None
        try:
            return duration_ms(0)(self.trigger)
        except ValueError as error:
            raise ConfigurationError(f"trigger {error}; or write {AVAILABLE_NOW}") from None

    def options(self, starting: str) -> dict[str, str]:
        """The options of format("tubeclient") for a query that starts at `starting`: a value of the option
        startingOffsets, or a time. Holds secrets."""
        at_ms = moment_ms(starting, "starting-offsets")
        if at_ms is None:
            begin = {"startingOffsets": starting}
        else:
            begin = {"startingTimestamp": str(at_ms)}
        unless_given = {
            **({} if self.bad_records is None else {"badMessages": "keep"}),
            **({} if self.records.time_zone is None else {"messageTimeZone": self.records.zone}),
        }
        given = set(map(str.lower, self.source_options))
        options = {
            **{name: value for name, value in unless_given.items() if name.lower() not in given},
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


def _says_offsets(starting: str | None) -> bool:
    """Whether a value of starting-offsets is JSON of partitions and offsets."""
    return starting is not None and starting.lstrip().startswith("{")


def _checked_starting(text: str | None) -> str | None:
    if text is None or _says_offsets(text):
        return text
    if (word := text.strip().lower()) in _STARTING_WORDS:
        return word
    if moment_ms(text, "starting-offsets") is None:
        raise ConfigurationError(
            f"starting-offsets is {text!r}; write earliest, latest, group, target, a time as 2026-11-21T10:31Z, or "
            'JSON from partition keys to offsets, as in {"1:clicks:0": 2800, "default": "earliest"}'
        )
    return text


def load_settings(
    path: Path | None, given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> IngestSettings:
    """The settings of the file, if any, and those `given`, by their fields and those of FormatSettings: what is not
    None overrides the file. `defaults` are for what neither has. Options are merged entry by entry.

    Errors name a setting as a file has it. The ConfigurationError names the file and the entry, never the value of a
    storage option.
    """
    values = dict(defaults or {})
    files = [_of_arguments({name: value for name, value in given.items() if value is not None})]
    if path is not None:
        files.insert(0, SettingsFile(path, _TABLES))
    for name, value in (entry for file in files for entry in _read(file).items()):
        values[name] = _merged(values.get(name, {}), value) if isinstance(value, Mapping) else value
    missing_settings(_REQUIRED, values)
    records = FormatSettings(**{name: values.pop(name) for name in _OF_RECORDS if name in values})
    return IngestSettings(**values, records=records)


def _merged(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    """Options of which `above` prevails, whatever the case of their names."""
    names = {name.lower() for name in above}
    return {**{name: value for name, value in below.items() if name.lower() not in names}, **above}


_REQUIRED: Final = ("master_servers", "consumer_group", "topics", "target")
_OF_RECORDS: Final = tuple(one.name for one in fields(FormatSettings))
_IN_FILE: Final = {
    **kinds_of(IngestSettings, (*_OPTION_FIELDS, "records")),
    **kinds_of(FormatSettings, ("format_options",)),
    "max_bad_records": NUMBER_OR_TEXT,
}


def _of_arguments(given: Mapping[str, Any]) -> SettingsFile:
    own = {dashed(name): _as_in_toml(value) for name, value in given.items() if name not in _OPTION_FIELDS}
    options = {_TABLE_OF.get(name, dashed(name)): given[name] for name in _OPTION_FIELDS if name in given}
    return SettingsFile("Ingest", _TABLES, {"ingest": own, **options})


_TABLE_OF: Final = {"source_options": "source"}


def _as_in_toml(value: object) -> object:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value


def _read(file: SettingsFile) -> dict[str, Any]:
    return {
        **file.settings("ingest", _IN_FILE),
        "source_options": file.options("source"),
        "format_options": file.options("format-options"),
        "storage_options": file.secrets("storage-options"),
        "table_properties": file.options("table-properties"),
    }
