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
        "The cluster's masters. Default: those of the settings file, or else of TUBECLIENT_MASTER_SERVERS.",
        default=MISSING,
    )
    consumer_group: str = _setting("NAME", "The group to read as; one job per group.", default=MISSING)
    topics: tuple[str, ...] = _setting(
        "NAME",
        "A topic to read; may be given several times. Default with --inlong-group: the topic of the group's name.",
        flag="--topic",
        default=(),
    )
    target: str = _setting(
        "TABLE",
        "The table for the rows, Delta's unless --table-format says otherwise, made if missing: a path or URI, which "
        "has a slash, or a name as catalog.schema.table. Its newest commit says where the job goes on. With "
        "--inlong-group or --table-by: {stream} in it is the stream's name; _counts in its place is the table that "
        "counts records and says where the job goes on, and _rest the one for records of no stream that is defined.",
        default=MISSING,
    )
    inlong_group: str | None = _setting(
        "NAME",
        "Write each stream of this InLong group to a table of its own. In --schema, --schema-from-inlong and "
        "values of --format-option {stream} is the stream's id: a stream without such a file is not defined.",
    )
    table_by: str | None = _setting(
        "WHAT",
        "Write what differs in this to tables of their own: topic, tag, attribute.NAME, $.FIELD of a record's JSON, or "
        "of canal-json and debezium-json database.table, with schema between where there are schemas. {topic}, {tag}, "
        "{database}, {schema} and {table} stand for it in --target and in files of --schema, and {stream} for all of "
        "it.",
    )
    inlong_manager: str | None = _setting(
        "URL",
        "InLong's Manager, as http://manager:8083, which says what the group's streams are. Its user, key, tenant and "
        "ca_file are in the settings file's table inlong-manager.",
    )
    audit_proxies: str | None = _setting(
        "HOST:PORT,...",
        "InLong's audit-proxies, to report to Audit what each round received and wrote; the first that takes it. One "
        "that is down stops nothing.",
    )
    streams: tuple[str, ...] = _setting(
        "NAME",
        "A stream to write, and no others; or as '!NAME' one to leave out. NAME may be a pattern such as 'shop.*'. May "
        "be given several times.",
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
        "What the tables are: delta (the default), or iceberg, whose names begin with that of a catalog in pyiceberg's "
        "configuration: CATALOG.NAMESPACE.TABLE. Needs the extra iceberg.",
        default=DELTA,
    )
    warehouse: str | None = _setting(
        "FOLDER",
        "With --table-format iceberg: a local folder for the tables, with a catalog of its own in SQLite. Names of "
        "tables are NAMESPACE.TABLE then.",
    )
    offsets_table: str | None = _setting("PATH", "Delta table that keeps the groups' positions.")
    format: str | None = _setting(
        "FORMAT",
        "What records are: raw (the default), json, csv, kv, avro, protobuf, canal-json or debezium-json. raw: the "
        "target has the source's columns. With the others it has those of --schema, and a column tubemq that says "
        "where a row comes from; with the last two also a column change.",
    )
    key: tuple[str, ...] = _setting(
        "COLUMN",
        "A column that names a row; may be given several times. The target then has the newest state of each key, "
        "without those that were deleted; their keys are in a table beside it, whose name ends in _deletes. With "
        "--table-by, canal-json and no --schema: pkNames, for the primary key of each table as its messages name it.",
        default=(),
    )
    order_by: str | None = _setting(
        "COLUMN",
        "With --key: the row of a key with the greatest value is the newest. Or arrival: the one that came last, if "
        "all rows of a key are sent to one partition; between partitions there is no order. Only canal-json and "
        "debezium-json need none: they say the order themselves.",
    )
    schema: str | None = _setting(
        "COLUMNS",
        "The columns of records, as in CREATE TABLE: 'id BIGINT NOT NULL, name STRING'. Or a file whose name ends in "
        ".ddl. With --table-by, canal-json and debezium-json need none: their events say the columns. For avro an Avro "
        "schema, in a file whose name ends in .avsc. protobuf needs none: then it is a column for each field.",
    )
    schema_from_inlong: str | None = _setting(
        "FILE",
        "A stream's JSON from InLong's Manager: its fields instead of --schema, and its format, separator, escape "
        "character and encoding where they are not given. InLong's packs need --option payload=inlong, or payload=auto "
        "if other messages arrive as well.",
    )
    select: str | None = _setting(
        "LIST",
        "The target's columns in place of the schema's, as between SELECT and FROM in DuckDB's SQL: 'id, sha256(email) "
        "AS email, * EXCLUDE (id, email)'. Or a file whose name ends in .sql. A record of which a value cannot be "
        "computed is bad. Needs the extra select.",
    )
    separator: str | None = _setting("CHAR", "Between the fields of csv (default: ,) or the pairs of kv (default: &).")
    escape: str | None = _setting(
        "CHAR", "Escape character of kv, and of csv as InLong writes it, which has no quotes. Default: none."
    )
    encoding: str | None = _setting("NAME", "Encoding of the records, such as GBK (default: UTF-8).")
    time_zone: str | None = _setting(
        "ZONE",
        "The time zone of times that are written without one, in records and on messages (messageTimeZone), such as "
        "Asia/Shanghai (default: UTC).",
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
        "For json and kv: fields puts the fields that the schema lacks into a column _rescued of the target, as JSON. "
        "values also does so with values that are not of their column's type, and leaves the column null unless it is "
        "NOT NULL. Default: none, which ignores the former, and makes the latter bad records.",
        default="none",
    )
    evolve: bool = _setting(
        "",
        "Add columns to the target that it lacks. In a table with delta.enableTypeWidening=true also widen the columns "
        "that are too narrow.",
        default=False,
    )
    bad_records: str | None = _setting(
        "TABLE",
        "The table for records that cannot be parsed, as --target; many jobs may share it. Each record is in it "
        "or in the target. Default: such a record ends the job.",
    )
    max_bad_records: int | None = _setting(
        "N",
        "The most bad records of a round. With more the job ends before it writes anything of the round. Default: any "
        "number.",
    )
    bad_records_without_value: bool = _setting(
        "",
        "Keep of a bad record its place and its reason, and not its bytes: the column value is null. It cannot be "
        "tried again.",
        default=False,
    )
    starting_offsets: str | None = _setting(
        "WHERE",
        "Where to begin in topics without rows of the group in the target: earliest, latest, a time such as "
        "2026-11-21T10:31Z, or JSON. Default: earliest. group, once: the group's position in the offsets table. "
        "target, once: after the group's last commit there, whatever was done to the table since.",
    )
    until: str | None = _setting(
        "WHERE",
        "Where to end, with --trigger available-now: before the first message of a minute that has passed, such as "
        "2026-11-21T10:31Z, or at offsets: JSON from each partition's key to its offset. Default: at what is there.",
    )
    former_masters: str | None = _setting(
        "HOST:PORT,...",
        "The cluster's earlier masters, if --master-servers names none of them. Rows of another cluster are refused.",
    )
    source_count: int | None = _setting("N", "Nodes of the group: tasks that read in parallel.")
    max_offsets_per_trigger: int | None = _setting("N", "The most rows of one round.")
    trigger: str = _setting(
        "WHEN",
        "available-now (the default): read what there is and end. Or how often to start a round, such as 10s; 0s: "
        "without a pause.",
        default=AVAILABLE_NOW,
    )
    lineage: str | None = _setting(
        "NAMESPACE",
        "Tell OpenLineage what the run reads and writes, as a job of this namespace with the group's name. Where to is "
        "said as for all clients of OpenLineage: OPENLINEAGE_URL, or openlineage.yml. Needs the extra lineage.",
    )
    writer: str = _setting(
        "WHO",
        "Who writes the target's files: tasks, as they read, at about a third of the cost; or spark, which tables with "
        "rules of their own need. Default: auto, which is tasks where the target lets them.",
        default="auto",
    )
    source_options: Mapping[str, str] = _setting(
        "NAME=VALUE",
        "A further option of the source, such as masterWebPort=8080 (default: that of the settings file, or else "
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
            raise ConfigurationError(f"the job does not read {', '.join(others)}, whose offsets are to be reset")
        if names and self.starting_offsets == TARGET:
            raise ConfigurationError(
                f"starting-offsets is {TARGET}, which is no place in a topic to reset offsets to; give earliest,"
                " latest, group, a time or JSON"
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
