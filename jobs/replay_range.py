"""Read an exact range of topics again, for spark-submit.

    PYSPARK_PYTHON=/path/to/venv/bin/python spark-submit --properties-file conf/spark-defaults.conf \
        jobs/replay_range.py --settings conf/replay.toml

spark-submit sets master, packages and memory. The package must be installed where driver and executors run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from offsets_store.errors import display_uri
from spark_source.options.given import parse_options
from spark_source.options.moment import moment_ms
from spark_source.options.option import Masked
from spark_source.options.settings_file import SettingsFile, check_own
from spark_source.options.table_uris import check_folders
from spark_source.session import STARTING_SPARK
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import masters_of_environment, with_web_port
from tubeclient_cli.common.copies import as_messages, read_options_of_copies, write_options_of_copies
from tubeclient_cli.common.live import live_tasks
from tubeclient_cli.common.terminal import clear_errors, print_json, script_app
from tubeclient_cli.ingest.json_events import JsonEvents
from tubeclient_cli.ingest.on_spark import on_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tubeclient_ingest.target import SparkTable

__all__ = ["ReplaySettings", "Replayed", "load_replay", "replay", "replay_range"]

_OWN: Final = {
    "masterservers": "master-servers",
    "consumergroup": "consumer-group",
    "subscribe": "topics",
    "assign": "topics",
    **dict.fromkeys(("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"), "starting-offsets"),
    **dict.fromkeys(("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"), "ending-offsets"),
}
_HISTORY_COMMITS: Final = 1_000
"""How far back a replay's commit is looked for, to say when it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """A range of topics, and where it goes: to a Delta table or to a topic."""

    name: str
    """Into one table, a name is replayed once."""
    master_servers: str
    consumer_group: str
    topics: tuple[str, ...]
    starting_offsets: str
    """A value of startingOffsets, or a time such as 2026-11-21T10:31Z; likewise `ending_offsets`."""
    ending_offsets: str
    source_options: Mapping[str, str]
    sink_options: Mapping[str, str]
    target: str | None = None
    append: bool = False
    """Whether the target may have other rows."""
    to_topic: str | None = None
    to_master_servers: str | None = None
    """None: `master_servers`."""

    def __post_init__(self) -> None:
        check_own(self.source_options, _OWN)
        if not self.name.strip():
            raise ConfigurationError("name is blank; give each replay a name of its own")
        if (self.target is None) == (self.to_topic is None):
            raise ConfigurationError("give either target, a Delta table, or to-topic")
        check_folders({"target": self.target})
        if self.starting_offsets.strip().lower() == "group":
            raise ConfigurationError("starting-offsets is group, which moves; name offsets or a time")
        options = parse_options(self.read())
        options.check_batch()
        if self.to_topic is not None:
            self.write()
        elif self.sink_options or self.to_master_servers is not None:
            raise ConfigurationError("[sink] and to-master-servers are for to-topic; leave them out")

    def read(self) -> Mapping[str, str]:
        """The options of the source; may hold secrets."""
        options = self.source_options if self.to_topic is None else read_options_of_copies(self.source_options)
        return Masked(
            {
                **options,
                "masterServers": self.master_servers,
                "consumerGroup": self.consumer_group,
                "subscribe": ",".join(self.topics),
                **_place("starting", self.starting_offsets),
                **_place("ending", self.ending_offsets),
            }
        )

    def write(self) -> Mapping[str, str]:
        """The options of the sink; may hold secrets."""
        masters = self.to_master_servers or self.master_servers
        return Masked(write_options_of_copies(self.sink_options, masters, self.to_topic, self.source_options))

    @property
    def range_number(self) -> int:
        """The same number, above 0, for the same topics and the same two places."""
        places = [_normal(self.starting_offsets), _normal(self.ending_offsets)]
        digest = hashlib.sha256(json.dumps([sorted(self.topics), places]).encode()).digest()
        return 1 + (int.from_bytes(digest[:8]) >> 2)


def _place(word: str, text: str) -> dict[str, str]:
    at_ms = moment_ms(text, f"{word}-offsets")
    return {f"{word}Offsets": text} if at_ms is None else {f"{word}Timestamp": str(at_ms)}


def _normal(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text.strip().lower()


def load_replay(path: Path, overrides: Mapping[str, Any]) -> ReplaySettings:
    """The settings of a file; values of `overrides` that are not None override them. Raises ConfigurationError."""
    file = SettingsFile(path, ("replay", "source", "sink"))
    return file.filled(
        "replay",
        ReplaySettings,
        overrides,
        masters_of_environment(),
        source_options=Masked(with_web_port(file.options("source"))),
        sink_options=Masked(file.options("sink")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay did."""

    name: str
    target: str | None = None
    """The table, without secrets; None: to a topic."""
    to_topic: str | None = None
    written: bool = True
    """False if the table had the replay already."""
    version: int | None = None
    """The table's version with the range; None to a topic, or if the table's history does not have it any more. `rows`
    likewise."""
    rows: int | None = None

    def __str__(self) -> str:
        """A line for people."""
        if self.target is None:
            sent = f"replay {self.name} was sent to topic {self.to_topic}, at least once"
            return f"done: {sent}; a second run sends it again"
        commit = "" if self.version is None else f" (version {self.version}, {self.rows:,} rows)"
        if self.written:
            return f"done: replay {self.name} is in {display_uri(self.target)}{commit}"
        return f"done: replay {self.name} was in {display_uri(self.target)} already{commit}; nothing was written"


def replay(spark: SparkSession, settings: ReplaySettings) -> Replayed:
    """Read the range and write it. Raises ConfigurationError for a target that has other rows, and Spark's errors."""
    rows = spark.read.format("tubeclient").options(**settings.read()).load()
    if settings.target is not None:
        return _into_table(rows, settings, settings.target)
    as_messages(rows).write.format("tubeclient").options(**settings.write()).mode("append").save()
    return Replayed(name=settings.name, to_topic=settings.to_topic)


def _into_table(rows: DataFrame, settings: ReplaySettings, target: str) -> Replayed:
    from tubeclient_ingest.target import SparkTable

    spark, where = rows.sparkSession, display_uri(target)
    table = SparkTable(spark, target)
    transaction, number = f"tubeclient replay {settings.name}", settings.range_number
    known = _number_in(table, transaction)
    if known is not None and known != number:
        raise ConfigurationError(
            f"{where} has a replay with the name {settings.name} of another range or other topics; use another name"
        )
    if known is None and not settings.append and _has_rows(spark, table):
        raise ConfigurationError(
            f"{where} has other rows, and the rows of the range may be among them; name another target, or add --append"
        )
    metadata = {
        "replay": settings.name,
        "topics": settings.topics,
        "startingOffsets": settings.starting_offsets,
        "endingOffsets": settings.ending_offsets,
        "range": number,
    }
    if known is None:
        # Of two runs at once, Delta accepts one.
        writer = rows.write.format("delta").mode("append").option("userMetadata", json.dumps(metadata))
        writer.option("txnAppId", transaction).option("txnVersion", number).save(target)
        if _number_in(table, transaction) != number:
            raise ConfigurationError(f"another run with the name {settings.name} came first; use another name")
    version, count, other = None, None, None
    history = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT {_HISTORY_COMMITS}").where("userMetadata IS NOT NULL")
    for commit in history.select("version", "userMetadata", "operationMetrics").collect():
        with contextlib.suppress(ValueError):
            found = json.loads(commit.userMetadata)
            if isinstance(found, dict) and found.get("replay") == settings.name:
                if found.get("range") != number:
                    other = commit.version
                else:
                    version, count = commit.version, int((commit.operationMetrics or {}).get("numOutputRows", "0"))
    # Delta takes a number above the one that it has. So of two runs that began at once both can be there.
    if other is not None and known is None:
        raise ConfigurationError(
            f"{where} has another range with the name {settings.name} too, in version {other}: another run wrote it"
            f" while this one began{'' if version is None else f' (version {version})'}. RESTORE the table, or keep"
            " both"
        )
    return Replayed(name=settings.name, target=where, written=known is None, version=version, rows=count)


def _has_rows(spark: SparkSession, table: SparkTable) -> bool:
    return table.detail() is not None and not spark.table(table.sql).isEmpty()


def _number_in(table: SparkTable, transaction: str) -> int | None:
    """The number under which a table knows a replay; None if it does not."""
    detail = table.detail()
    return None if detail is None else table.transactions(transaction, detail).last


def replay_range(
    settings: Annotated[Path, typer.Option(help="TOML file with the settings, as conf/replay.toml.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The replay's name: a target takes each name once.")
    ] = None,
    starting_offsets: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where the range begins: earliest, a time such as 2026-11-21T10:31Z (by the times that producers "
            'write), or JSON as in startingOffsets, {"1:clicks:0": 2800, "default": "earliest"}.',
        ),
    ] = None,
    ending_offsets: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="Where it ends, before that place: latest, a time, or JSON."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Delta table for the rows; created if missing.")
    ] = None,
    append: Annotated[
        bool | None, typer.Option("--append", help="Write to a target that has other rows.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each event: starting, done, error.")
    ] = False,
) -> None:
    """Read an exact range of topics again, into a Delta table or a topic.

    No position of any group moves, and the group's own query may run
    meanwhile. The options override the settings file.

    Into a table (target) the range is one commit, with the source's columns.
    The commit carries the replay's name. A second run with the name and the
    same range writes nothing and says so; with another range it is refused.
    A target that has other rows is refused unless there is --append.

    To a topic (to-topic) each run sends the range again, at least once:
    value, tag, time and attributes, to all partitions in turn.

    If brokers no longer hold the whole range, the job fails, and writes
    nothing to the table. With failOnDataLoss=false it takes what there is.

    Passwords belong in files or environment variables. The options
    authPasswordFile and authPasswordEnv name them in the settings file.

    Example:

      spark-submit --properties-file conf/spark-defaults.conf \\
        jobs/replay_range.py --settings conf/replay.toml \\
        --name again --starting-offsets earliest --ending-offsets latest
    """
    script = "replay_range.py"

    events = JsonEvents() if as_json else None
    failed = events.failed if events is not None else lambda _: None
    with clear_errors(script, "", failed):
        overrides = {
            "name": name,
            "starting_offsets": starting_offsets,
            "ending_offsets": ending_offsets,
            "target": target,
            "append": append,
        }
        job = load_replay(settings, overrides)
        if events is not None:
            events.say(STARTING_SPARK)
        with on_spark(script, failed=failed) as spark:
            with live_tasks(spark, f"replay {job.name}"):
                done = replay(spark, job)
            if as_json:
                print_json({"event": "done", **asdict(done)})
            else:
                typer.echo(str(done))


if __name__ == "__main__":
    script_app(replay_range)()
