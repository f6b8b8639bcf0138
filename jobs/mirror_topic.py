"""Copy topics to another cluster, for spark-submit.

    PYSPARK_PYTHON=/path/to/venv/bin/python spark-submit --properties-file conf/spark-defaults.conf \
        jobs/mirror_topic.py --settings conf/mirror.toml

spark-submit sets master, packages and memory. The package must be installed where driver and executors run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.given import parse_given, parse_options, write_options
from spark_source.options.moment import duration_ms, moment_ms
from spark_source.options.option import Masked
from spark_source.options.settings_file import SettingsFile, check_own
from spark_source.options.table_uris import check_folders
from spark_source.session import STARTING_SPARK
from tubeclient.errors import ConfigurationError
from tubeclient.producer import Producer
from tubeclient.settings import parse_master_servers
from tubeclient_cli.common.copies import as_messages, read_options_of_copies, write_options_of_copies
from tubeclient_cli.common.signals import stop_on_signals
from tubeclient_cli.common.terminal import clear_errors, script_app
from tubeclient_cli.common.watch import Watch
from tubeclient_cli.ingest.display import Display
from tubeclient_cli.ingest.json_events import EachAsJson, JsonEvents
from tubeclient_cli.ingest.on_spark import on_spark
from tubeclient_ingest.progress import IngestSummary, Round
from tubeclient_ingest.settings import AVAILABLE_NOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MirrorSettings", "check_other_cluster", "load_mirror", "mirror_topic", "run_mirror"]

_OWN: Final = {
    "masterservers": "master-servers",
    "consumergroup": "consumer-group",
    "subscribe": "topics",
    "assign": "topics",
    "startingoffsets": "starting-offsets",
    "startingtimestamp": "starting-offsets",
    "startingoffsetsbytimestamp": "starting-offsets",
    "startingoffsetsbytimestampstrategy": "starting-offsets",
    "offsetstable": "offsets-table",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """Topics of one cluster to another. The options of the source and of the sink are in `read` and `write`."""

    master_servers: str
    consumer_group: str
    topics: tuple[str, ...]
    to_master_servers: str
    checkpoint: str
    source_options: Mapping[str, str]
    sink_options: Mapping[str, str]
    storage_options: Mapping[str, str]
    to_topic: str | None = None
    """None: each topic keeps its name."""
    offsets_table: str | None = None
    starting_offsets: str = "earliest"
    """Without a checkpoint: a value of the source's startingOffsets, or a time such as 2026-11-21T10:31Z."""
    trigger: str = AVAILABLE_NOW
    stop_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        check_own(self.source_options, _OWN)
        check_folders({"checkpoint": self.checkpoint, "offsets-table": self.offsets_table})
        parse_options(self.read()).check_stream()
        self.write()
        _ = self.trigger_options
        both = set(parse_master_servers(self.master_servers)) & set(parse_master_servers(self.to_master_servers))
        if both and (self.to_topic is None or self.to_topic in self.topics):
            raise ConfigurationError(
                f"both clusters have the master {min(both)}, so the copies would be copied again, without end; name "
                "another cluster in to-master-servers, or another topic in to-topic"
            )

    @property
    def trigger_options(self) -> Mapping[str, Any]:
        """The arguments of Spark's trigger()."""
        if self.trigger == AVAILABLE_NOW:
            return {"availableNow": True}
        return {"processingTime": f"{duration_ms('trigger', self.trigger)} milliseconds"}

    def read(self) -> Mapping[str, str]:
        """The options of the source; may hold secrets."""
        at_ms = moment_ms(self.starting_offsets, "starting-offsets")
        begin = {"startingOffsets": self.starting_offsets}
        if at_ms is not None:
            begin = {"startingTimestamp": str(at_ms), "startingOffsetsByTimestampStrategy": "latest"}
        table = {} if self.offsets_table is None else {"offsetsTable": self.offsets_table}
        return Masked(
            {
                **read_options_of_copies(self.source_options),
                **{f"storageOption.{name}": value for name, value in self.storage_options.items()},
                "masterServers": self.master_servers,
                "consumerGroup": self.consumer_group,
                "subscribe": ",".join(self.topics),
                **begin,
                **table,
            }
        )

    def write(self) -> Mapping[str, str]:
        """The options of the sink; may hold secrets."""
        return Masked(
            write_options_of_copies(self.sink_options, self.to_master_servers, self.to_topic, self.source_options)
        )


def load_mirror(path: Path) -> MirrorSettings:
    """The settings of a file. Raises ConfigurationError."""
    file = SettingsFile(path, ("mirror", "source", "sink", "storage-options"))
    return file.filled(
        "mirror",
        MirrorSettings,
        {},
        {},
        source_options=Masked(file.options("source")),
        sink_options=Masked(file.options("sink")),
        storage_options=Masked(file.secrets("storage-options")),
    )


def check_other_cluster(settings: MirrorSettings) -> None:
    """Raise ConfigurationError if a topic would be copied to itself. One cluster can have many names: so it goes by the
    brokers, as both clusters' masters name them. Raises TubeError if one cannot be asked."""
    read, write = parse_options(settings.read()), write_options(parse_given(settings.write()))
    both = {settings.to_topic or topic for topic in settings.topics}.intersection(settings.topics)
    if not both:
        return
    view = TubeCluster(client_settings(read), read).fetch_view()
    sink = client_settings(write)
    with Producer(sink) as producer:
        producer.publish(sorted(both), timeout_ms=sink.retry_limit_ms)
        for topic in sorted(both):
            sources = {view.brokers[layout.broker_id].address for layout in view.layouts if layout.topic == topic}
            if same := sources.intersection(producer.brokers(topic)):
                raise ConfigurationError(
                    f"master-servers and to-master-servers name one cluster: topic {topic} is at broker {min(same)} in"
                    " both, so the copies would be copied again, without end; name another cluster in"
                    " to-master-servers, or another topic in to-topic"
                )


def run_mirror(
    spark: SparkSession,
    settings: MirrorSettings,
    stop: threading.Event,
    on_batch: Callable[[Round], object] = lambda _: None,
    on_first: Callable[[], object] = lambda: None,
) -> IngestSummary:
    """Copy until there is nothing left (available-now), or until `stop` is set, after the running batch. Raises Spark's
    error for a failed query, and what `check_other_cluster` raises."""
    check_other_cluster(settings)
    rows = spark.readStream.format("tubeclient").options(**settings.read()).load()
    query = as_messages(rows).writeStream.format("tubeclient").options(**settings.write())
    query = query.option("checkpointLocation", settings.checkpoint).queryName(f"mirror {settings.consumer_group}")
    started = query.trigger(**settings.trigger_options).start()
    watch = Watch(started, on_batch, stop, settings.stop_timeout_s, on_first)
    return watch.until_end()


def mirror_topic(
    settings: Annotated[Path, typer.Option(help="TOML file with the settings, as conf/mirror.toml.")],
    json: EachAsJson = False,
) -> None:
    """Copy topics to another cluster: value, tag, time and attributes.

    A streaming query reads the topics as a consumer group of the first
    cluster and sends each message to the second. The topics must exist there.

    At least once: no message is lost, and some may come twice. TubeMQ's
    brokers do not recognise a message that is sent again. So what a task
    sends again after a fault, or a batch that runs again after a kill, is
    there twice.

    The checkpoint says where to go on. With a new checkpoint the job begins
    at starting-offsets, and copies again what it finds there.

    Messages go to all partitions of the topic in turn, so their order is not
    kept. InLong's packs are copied as they are. Two jobs that copy a topic to
    and fro between two clusters copy it without end.

    Ctrl-C or SIGTERM to the Python process ends the job after the running
    batch, with exit code 0. Under spark-submit Ctrl-C reaches Spark as well
    and cuts the batch off: the next start sends that batch again.

    Passwords belong in files or environment variables. The options
    authPasswordFile and authPasswordEnv name them in the settings file.

    Example:

      spark-submit --properties-file conf/spark-defaults.conf \\
        jobs/mirror_topic.py --settings conf/mirror.toml
    """
    name = "mirror_topic.py"
    shown: Display | JsonEvents = JsonEvents() if json else Display()
    with clear_errors(name, "", shown.failed):
        job = load_mirror(settings)
        stop = threading.Event()
        if json:
            shown.say(STARTING_SPARK)
        batches: list[int] = []

        def on_batch(event: Round) -> None:
            batches.append(event.sequence)
            display.done(event)

        with on_spark(name, failed=shown.failed, begun=lambda: bool(batches)) as spark, shown as display:
            # Not before: the session puts its own handler of Ctrl-C in place.
            stop_on_signals(stop)
            summary = run_mirror(spark, job, stop, on_batch, display.reads)
        display.end(summary)


if __name__ == "__main__":
    script_app(mirror_topic)()
