"""The settings of an ingest job. Each field says how the file, the command line and Python have it, and what it means.

Imports nothing heavy: the help of the command is made of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec
    from spark_source.typed.format_settings import FormatSettings

AVAILABLE_NOW: Final = "available-now"

SPARK: Final = "spark"
TASKS: Final = "tasks"
WRITERS: Final = ("auto", SPARK, TASKS)
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
TABLE_FORMATS: Final = (DELTA, ICEBERG)
GROUP: Final = "group"
"""Starting offsets: the group's position in the offsets table, whichever job recorded it."""
TARGET: Final = "target"
"""Starting offsets: after the group's last commit to the target, whatever was done to the table since."""


def _setting(metavar: str, help: str, *, flag: str | None = None, **how: Any) -> Any:
    """A field that the command line has: by default with the field's name, and None if it is not given."""
    return field(metadata={"metavar": metavar, "help": help, "flag": flag}, **how or {"default": None})


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """One ingest job: a group's topics into one Delta table. ConfigurationError for settings that do not fit."""

    master_servers: str = _setting(
        "HOST:PORT,...",
        "The cluster's masters. Default: the settings file's, otherwise TUBECLIENT_MASTER_SERVERS of the environment.",
        default=MISSING,
    )
    consumer_group: str = _setting("NAME", "The group to read as; only one job per group.", default=MISSING)
    topics: tuple[str, ...] = _setting(
        "NAME",
        "A topic to read; may be given several times. Default with --inlong-group: the topic of the group's name.",
        flag="--topic",
        default=(),
    )
    target: str = _setting(
        "TABLE",
        "The table for the rows, created if missing, in Delta unless --table-format says otherwise: a path or URI "
        "with a slash, or a name such as catalog.schema.table. The job continues from the table's newest commit. "
        "With --inlong-group or --table-by, {stream} stands for the stream's name. The table with _counts in its "
        "place counts records and says where the job continues; the one with _rest takes records of streams that are "
        "not defined.",
        default=MISSING,
    )
    inlong_group: str | None = _setting(
        "NAME",
        "Write each stream of this InLong group to its own table. In --schema, --schema-from-inlong and values of "
        "--format-option, {stream} stands for the stream's id: a stream without such a file is not defined.",
    )
    table_by: str | None = _setting(
        "WHAT",
        "Write one table for each value of this: topic, tag, attribute.NAME, $.FIELD of a record's JSON, or for "
        "canal-json and debezium-json database.table, with schema in between if there are schemas. In --target and "
        "in files of --schema, {topic}, {tag}, {database}, {schema} and {table} stand for the parts, and {stream} "
        "for the whole value.",
    )
    inlong_manager: str | None = _setting(
        "URL",
        "InLong's Manager, such as http://manager:8083, which defines the group's streams. Set its user, key, tenant "
        "and ca_file in the settings file's table inlong-manager.",
    )
    audit_proxies: str | None = _setting(
        "HOST:PORT,...",
        "InLong's audit-proxies, to report to Audit what each round received and wrote; the job uses the first that "
        "accepts the report. If one is down, the job continues.",
    )
    streams: tuple[str, ...] = _setting(
        "NAME",
        "Write only this stream, or with '!NAME' all but this one. NAME may be a pattern such as 'shop.*'. May be "
        "given several times.",
        flag="--stream",
        default=(),
    )
    partition_by: tuple[str, ...] = _setting(
        "COLUMN", "A column to partition a new target by; may be given several times.", default=()
    )
    cluster_by: tuple[str, ...] = _setting(
        "COLUMN", "A column to cluster a new target by; may be given several times.", default=()
    )
    table_properties: Mapping[str, str] = _setting(
        "NAME=VALUE",
        "A property of a new target, such as delta.appendOnly=true; may be given several times.",
        flag="--table-property",
        default_factory=dict,
    )
    table_format: str = _setting(
        "FORMAT",
        "The tables' format: delta (the default), or iceberg. Iceberg tables are named CATALOG.NAMESPACE.TABLE, with "
        "a catalog from pyiceberg's configuration, and need the extra iceberg.",
        default=DELTA,
    )
    warehouse: str | None = _setting(
        "FOLDER",
        "With --table-format iceberg: a local folder for the tables, with its own catalog in SQLite. Tables are then "
        "named NAMESPACE.TABLE.",
    )
    offsets_table: str | None = _setting("PATH", "Delta table that keeps the groups' positions.")
    format: str | None = _setting(
        "FORMAT",
        "The records' format: raw (the default), json, csv, kv, avro, protobuf, canal-json or debezium-json. With "
        "raw, the target has the source's columns. With the others, it has those of --schema and a column tubemq "
        "that says where a row comes from; with the last two also a column change.",
    )
    key: tuple[str, ...] = _setting(
        "COLUMN",
        "A key column; may be given several times. The target then has the newest state of each key that is not "
        "deleted; a second table, whose name ends in _deletes, has the deleted keys. With --table-by, canal-json and "
        "no --schema: pkNames, for each table's primary key as its messages name it.",
        default=(),
    )
    order_by: str | None = _setting(
        "COLUMN",
        "With --key: the column whose greatest value marks a key's newest row. Or arrival: the row that arrived "
        "last, if all rows of a key are sent to one partition, because partitions have no common order. Not needed "
        "for canal-json and debezium-json, which carry the order themselves.",
    )
    schema: str | None = _setting(
        "COLUMNS",
        "The records' columns, as in CREATE TABLE: 'id BIGINT NOT NULL, name STRING'. Or a file whose name ends in "
        ".ddl. With --table-by, canal-json and debezium-json need none, because their events name the columns. For "
        "avro: a file with an Avro schema, whose name ends in .avsc. protobuf needs none: by default each field is a "
        "column.",
    )
    schema_from_inlong: str | None = _setting(
        "FILE",
        "A stream's JSON from InLong's Manager. Its fields replace --schema; its format, separator, escape character "
        "and encoding are used unless you give them. InLong's packs need --option payload=inlong, or payload=auto if "
        "other messages arrive as well.",
    )
    select: str | None = _setting(
        "LIST",
        "The target's columns instead of the schema's, as between SELECT and FROM in DuckDB's SQL: 'id, "
        "sha256(email) AS email, * EXCLUDE (id, email)'. Or a file whose name ends in .sql. If a value cannot be "
        "computed, the record is bad. Needs the extra select.",
    )
    separator: str | None = _setting(
        "CHAR", "The separator between the fields of csv (default: ,) or the pairs of kv (default: &)."
    )
    escape: str | None = _setting(
        "CHAR", "The escape character of kv, and of csv without quotes, as InLong writes it. Default: none."
    )
    encoding: str | None = _setting("NAME", "The records' encoding, such as GBK (default: UTF-8).")
    time_zone: str | None = _setting(
        "ZONE",
        "The time zone of times without one, in records and on messages (messageTimeZone), such as Asia/Shanghai "
        "(default: UTC).",
    )
    format_options: Mapping[str, str] = _setting(
        "NAME=VALUE",
        "An option of the format, named as Spark's, such as timestampFormat=yyyyMMddHHmmss; for kv also kvSeparator. "
        "protobuf needs descFilePath, the descriptor file that protoc writes, and messageName. May be given several "
        "times.",
        flag="--format-option",
        default_factory=dict,
    )
    rescue: str = _setting(
        "WHAT",
        "For json and kv: fields puts fields that the schema lacks into the target's column _rescued, as JSON. "
        "values does the same with values that do not match their column's type, and leaves the column null unless "
        "it is NOT NULL. Default: none, which ignores such fields, and makes records with such values bad.",
        default="none",
    )
    evolve: bool = _setting(
        "",
        "Add missing columns to the target. In a table with delta.enableTypeWidening=true, also widen columns that "
        "are too narrow.",
        default=False,
    )
    bad_records: str | None = _setting(
        "TABLE",
        "The table for records that cannot be parsed, given like --target; many jobs may share it. Each record is "
        "either in it or in the target. Default: none; such a record ends the job.",
    )
    max_bad_records: int | None = _setting(
        "N",
        "The maximum number of bad records in a round, for each table. With more, nothing of the round is written to "
        "the table: the job ends, or continues with its other tables. Default: no limit.",
    )
    bad_records_without_value: bool = _setting(
        "",
        "Keep only the place and the reason of a bad record, not its bytes: the column value is null. Such a record "
        "cannot be retried.",
        default=False,
    )
    starting_offsets: str | None = _setting(
        "WHERE",
        "Where to start in topics that have no rows of the group in the target: earliest, latest, a time such as "
        "2026-11-21T10:31Z, or JSON. Default: earliest. To use once: group, the group's position in the offsets "
        "table; or target, after the group's last commit in the target, whatever was done to the table since.",
    )
    until: str | None = _setting(
        "WHERE",
        "Where to end, with --trigger available-now: before the first message of a past minute, such as "
        "2026-11-21T10:31Z, or at offsets: JSON from each partition's key to its offset. Default: at the newest "
        "messages when the run starts.",
    )
    former_masters: str | None = _setting(
        "HOST:PORT,...",
        "The cluster's former masters, if --master-servers names none of them. Otherwise the job refuses the rows as "
        "another cluster's.",
    )
    source_count: int | None = _setting(
        "N", "The number of nodes of the group, which are the tasks that read in parallel."
    )
    max_offsets_per_trigger: int | None = _setting("N", "The maximum number of rows in one round.")
    trigger: str = _setting(
        "WHEN",
        "available-now (the default): read what is there, then end. Or how often to start a round, such as 10s; 0s "
        "means without a pause.",
        default=AVAILABLE_NOW,
    )
    lineage: str | None = _setting(
        "NAMESPACE",
        "Report to OpenLineage what the run reads and writes, as a job in this namespace with the group's name. Set "
        "the destination as for any OpenLineage client: OPENLINEAGE_URL, or openlineage.yml. Needs the extra lineage.",
    )
    writer: str = _setting(
        "WHO",
        "Who writes the target's files: tasks, as they read, at about a third of the cost; or spark, which tables "
        "with their own rules need. Default: auto, which means tasks if the target allows them.",
        default="auto",
    )
    source_options: Mapping[str, str] = _setting(
        "NAME=VALUE",
        "Another option of the source, such as masterWebPort=8080 (default: the settings file's, otherwise "
        "TUBECLIENT_MASTER_WEB_PORT of the environment, otherwise 8080).",
        flag="--option",
        default_factory=dict,
        repr=False,  # there may be secrets in it
    )
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """delta-rs's options for the storage of the offsets table, and of tables whose files tasks write. Secrets: so they
    have no flag."""
    manager_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further arguments of `InlongManager`: user, key, key_file, key_env, tenant, ca_file. Secrets too."""

    def __post_init__(self) -> None:
        from tubeclient_ingest.settings.checks import check_source, check_values, checked_starting, places_of

        self._put(places_of(self))
        check_values(self)
        self._put({"topics": self.topics or (self.inlong_group,)})
        self._put({"starting_offsets": checked_starting(self.starting_offsets)})
        # As the source has them: what the target records by name is looked for by these.
        self._put(dict(zip(("consumer_group", "topics"), check_source(self), strict=True)))

    def _put(self, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def check_topics(self, names: Collection[str]) -> None:
        """ConfigurationError for topics whose offsets are to be reset that the job does not read, or for `TARGET`."""
        if others := sorted(set(names).difference(self.topics)):
            raise ConfigurationError(f"cannot reset the offsets of {', '.join(others)}, which the job does not read")
        if names and self.starting_offsets == TARGET:
            raise ConfigurationError(
                f"starting-offsets is {TARGET}, but offsets cannot be reset to that; use earliest, latest, group, a "
                "time or JSON"
            )

    @property
    def records(self) -> FormatSettings:
        """What records mean, and so which columns the target has."""
        from spark_source.typed.format_settings import FormatSettings

        own = {setting.name: getattr(self, setting.name) for setting in fields(FormatSettings)}
        if self.inlong_manager is not None and self.format is None:
            own["rescue"] = "none"  # each stream says its format, and whether there are fields
        return FormatSettings(**own)

    @property
    def zone(self) -> str:
        """Java's and Python's name of the time zone."""
        from spark_source.typed.format_settings import FormatSettings

        return FormatSettings(time_zone=self.time_zone).zone

    @property
    def former_master_servers(self) -> tuple[str, ...]:
        """`former_masters` as a tuple."""
        from tubeclient.settings import parse_master_servers

        text = self.former_masters
        return () if text is None else parse_master_servers(text, setting="former-masters", user_setting="authUser")

    @property
    def fallback(self) -> str:
        """Where unknown topics begin: a value of the source's startingOffsets, JSON, or a time."""
        if self.starting_offsets == GROUP:
            return "group:earliest"
        return "earliest" if self.starting_offsets in (None, TARGET) else self.starting_offsets

    @property
    def end(self) -> OffsetSpec | None:
        """`until` as the places of partitions; None without it."""
        from tubeclient_ingest.settings.ending import parse_until

        return None if self.until is None else parse_until(self.until)

    @property
    def interval_ms(self) -> int | None:
        """Milliseconds between the starts of two rounds; None for available-now."""
        from spark_source.options.parsers import duration_ms

        if self.trigger == AVAILABLE_NOW:
            return None
        try:
            return duration_ms(0)(self.trigger)
        except ValueError as error:
            raise ConfigurationError(f"trigger {error}; or write {AVAILABLE_NOW}") from None

    @property
    def has_streams(self) -> bool:
        """Whether the job has a table for each stream."""
        return self.inlong_group is not None or self.table_by is not None

    @property
    def payloads(self) -> list[str]:
        """The source's option payload as it is given, in any case of its name; [] without it."""
        return [value.lower() for name, value in self.source_options.items() if name.lower() == "payload"]

    @property
    def own_options(self) -> dict[str, str]:
        """The source's options that a job of many tables needs for the rows to say which table they are for."""
        from tubeclient_ingest.settings.table_by import TableBy

        if (table_by := TableBy.of(self)) is None:
            return {}
        found = {"payload": "auto"} if self.inlong_group is not None else {}
        return found | ({} if table_by.columns is None else {"columns": table_by.columns})

    def options(self, starting: str) -> dict[str, str]:
        """The options of format("tubeclient") for a query that starts at `starting`: a value of the option
        startingOffsets, or a time. Holds secrets."""
        from spark_source.options.parsers import moment_ms
        from tubeclient.names import topic_names

        at_ms = moment_ms(starting, "starting-offsets")
        begin = {"startingOffsets": starting} if at_ms is None else {"startingTimestamp": str(at_ms)}
        unless_given = {
            "badMessages": None if self.bad_records is None else "keep",
            "messageTimeZone": self.time_zone and self.zone,
            **self.own_options,
        }
        given = set(map(str.lower, self.source_options))
        of_offsets = {} if self.offsets_table is None else self.storage_options
        options: dict[str, object] = {
            **{name: value for name, value in unless_given.items() if name.lower() not in given},
            **self.source_options,
            "masterServers": self.master_servers,
            "consumerGroup": self.consumer_group,
            "subscribe": ",".join(topic_names(self.topics)),
            **begin,
            "offsetsTable": self.offsets_table,
            "sourceCount": self.source_count,
            "maxOffsetsPerTrigger": self.max_offsets_per_trigger,
            **{f"storageOption.{name}": value for name, value in of_offsets.items()},
        }
        return {name: str(value) for name, value in options.items() if value is not None}
