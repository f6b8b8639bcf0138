"""Read an exact range of topics again, for spark-submit.

    PYSPARK_PYTHON=/path/to/venv/bin/python spark-submit --properties-file conf/spark-defaults.conf \
        jobs/replay_range.py --settings conf/replay.toml

spark-submit sets master, packages and memory. The package must be installed where driver and executors run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from offsets_store.errors import display_uri
from spark_source.options.given import parse_options
from spark_source.options.moment import moment_ms
from spark_source.options.option import Masked
from spark_source.options.settings_file import SettingsFile, check_own
from spark_source.options.table_uris import check_folders
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import masters_of_environment, with_web_port
from tubeclient_cli.common.live import live_tasks
from tubeclient_cli.common.terminal import clear_errors, script_app
from tubeclient_cli.ingest.on_spark import on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tubeclient_ingest.target import SparkTable

__all__ = ["ReplaySettings", "load_replay", "replay", "replay_range"]

_OWN: Final = {
    "masterservers": "master-servers",
    "consumergroup": "consumer-group",
    "subscribe": "topics",
    "assign": "topics",
    **dict.fromkeys(("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"), "starting-offsets"),
    **dict.fromkeys(("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"), "ending-offsets"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """A range of topics, and the Delta table for it."""

    name: str
    """Into one table, a name is replayed once."""
    master_servers: str
    consumer_group: str
    topics: tuple[str, ...]
    starting_offsets: str
    """A value of startingOffsets, or a time such as 2026-11-21T10:31Z; likewise `ending_offsets`."""
    ending_offsets: str
    source_options: Mapping[str, str]
    target: str
    append: bool = False
    """Whether the target may have other rows."""

    def __post_init__(self) -> None:
        check_own(self.source_options, _OWN)
        if not self.name.strip():
            raise ConfigurationError("name is blank; give each replay a name of its own")
        check_folders({"target": self.target})
        if self.starting_offsets.strip().lower().startswith("group"):
            raise ConfigurationError("starting-offsets is group, which moves; name offsets or a time")
        parse_options(self.read()).check_batch()

    def read(self) -> Mapping[str, str]:
        """The options of the source; may hold secrets."""
        return Masked(
            {
                **self.source_options,
                "masterServers": self.master_servers,
                "consumerGroup": self.consumer_group,
                "subscribe": ",".join(self.topics),
                **_place("starting", self.starting_offsets),
                **_place("ending", self.ending_offsets),
            }
        )

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


def load_replay(path: Path) -> ReplaySettings:
    """The settings of a file. Raises ConfigurationError."""
    file = SettingsFile(path, ("replay", "source"))
    options = Masked(with_web_port(file.options("source")))
    return file.filled("replay", ReplaySettings, {}, masters_of_environment(), source_options=options)


def replay(spark: SparkSession, settings: ReplaySettings) -> str:
    """Read the range and write it; returns a line that says what was done. Raises ConfigurationError for a target that
    has other rows, and Spark's errors."""
    from tubeclient_ingest.target import SparkTable

    where = display_uri(settings.target)
    table = SparkTable(spark, settings.target)
    transaction, number = f"tubeclient replay {settings.name}", settings.range_number
    known = _number_in(table, transaction)
    if known == number:
        return f"done: replay {settings.name} was in {where} already; nothing was written"
    if known is not None:
        raise ConfigurationError(
            f"{where} has a replay with the name {settings.name} of another range or other topics; use another name"
        )
    if not settings.append and _has_rows(spark, table):
        raise ConfigurationError(
            f"{where} has other rows, and the rows of the range may be among them; name another target, or set append ="
            " true"
        )
    metadata = {
        "replay": settings.name,
        "topics": settings.topics,
        "startingOffsets": settings.starting_offsets,
        "endingOffsets": settings.ending_offsets,
    }
    rows = spark.read.format("tubeclient").options(**settings.read()).load()
    # Of two runs at once, Delta accepts one; it takes no number below one that it has, without a word.
    writer = rows.write.format("delta").mode("append").option("userMetadata", json.dumps(metadata))
    writer.option("txnAppId", transaction).option("txnVersion", number).save(settings.target)
    if _number_in(table, transaction) != number:
        raise ConfigurationError(f"another run with the name {settings.name} came first; use another name")
    return f"done: replay {settings.name} is in {where}"


def _has_rows(spark: SparkSession, table: SparkTable) -> bool:
    return table.detail() is not None and not spark.table(table.sql).isEmpty()


def _number_in(table: SparkTable, transaction: str) -> int | None:
    """The number under which a table knows a replay; None if it does not."""
    detail = table.detail()
    return None if detail is None else table.transactions(transaction, detail).last


def replay_range(
    settings: Annotated[Path, typer.Option(help="TOML file with the settings, as conf/replay.toml.")],
) -> None:
    """Read an exact range of topics again, into a Delta table.

    No position of any group moves, and the group's own query may run
    meanwhile.

    The range is one commit, with the source's columns, and carries the
    replay's name. A second run with the name and the same range writes
    nothing and says so; with another range it is refused. A target that has
    other rows is refused unless append is true.

    If brokers no longer hold the whole range, the job fails, and writes
    nothing to the table. With failOnDataLoss=false it takes what there is.

    A password belongs in a file. The option authPasswordFile names it in
    the settings file.

    Example:

      spark-submit --properties-file conf/spark-defaults.conf \\
        jobs/replay_range.py --settings conf/replay.toml
    """
    script = "replay_range.py"
    with clear_errors(script, ""):
        job = load_replay(settings)
        with on_spark(script) as spark, live_tasks(spark, f"replay {job.name}"):
            done = replay(spark, job)
        typer.echo(done)


if __name__ == "__main__":
    script_app(replay_range)()
