"""Copy topics to another cluster, for spark-submit.

    PYSPARK_PYTHON=/path/to/venv/bin/python spark-submit --properties-file conf/spark-defaults.conf \
        jobs/mirror_topic.py --settings conf/mirror.toml

spark-submit sets master, packages and memory. The package must be installed where driver and executors run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.given import parse_given, parse_options, write_options
from spark_source.options.moment import duration_ms
from spark_source.options.option import Masked
from spark_source.options.settings_file import SettingsFile, check_own
from spark_source.options.table_uris import check_folders
from tubeclient.errors import ConfigurationError
from tubeclient.producing.producer import Producer
from tubeclient_cli.common.signals import stop_on_signals
from tubeclient_cli.common.terminal import clear_errors, script_app
from tubeclient_cli.ingest.on_spark import on_spark
from tubeclient_ingest.settings import AVAILABLE_NOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MirrorSettings", "check_other_cluster", "load_mirror", "mirror_topic", "run_mirror"]

_OWN: Final = {
    "masterservers": "master-servers",
    "consumergroup": "consumer-group",
    "subscribe": "topics",
    "assign": "topics",
}
_WHOLE: Final = {
    "payload": "raw",
    "badMessages": "fail",
    "columns": "topic,value,messageType,messageTime,attributes",
}
"""With other values rows are not whole messages."""
_TIME_ZONE: Final = "messagetimezone"
_OWN_OF_SINK: Final = {
    "masterservers": "to-master-servers",
    "topic": "to-topic",
    _TIME_ZONE: "messageTimeZone in [source]",
}
_POLL_SECONDS: Final = 0.25
_STOP_SECONDS: Final = 60.0
"""How long a stop waits for the running batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """Topics of one cluster to another. Other options of the source and of the sink are in `source_options` and
    `sink_options`."""

    master_servers: str
    consumer_group: str
    topics: tuple[str, ...]
    to_master_servers: str
    checkpoint: str
    source_options: Mapping[str, str]
    sink_options: Mapping[str, str]
    to_topic: str | None = None
    """None: each topic keeps its name."""
    trigger: str = AVAILABLE_NOW

    def __post_init__(self) -> None:
        check_own(self.source_options, _OWN)
        check_own(self.sink_options, _OWN_OF_SINK)
        whole = {name.lower() for name in _WHOLE}
        if fixed := [name for name in (*self.source_options, *self.sink_options) if name.lower() in whole]:
            raise ConfigurationError(f"option {fixed[0]} is fixed, as whole messages are copied; leave it out")
        check_folders({"checkpoint": self.checkpoint})
        parse_options(self.read()).check_stream()
        write_options(parse_given(self.write()))
        _ = self.trigger_options

    @property
    def trigger_options(self) -> Mapping[str, Any]:
        """The arguments of Spark's trigger()."""
        if self.trigger == AVAILABLE_NOW:
            return {"availableNow": True}
        return {"processingTime": f"{duration_ms('trigger', self.trigger)} milliseconds"}

    def read(self) -> Mapping[str, str]:
        """The options of the source; may hold secrets. Unless they say where to begin, everything is copied."""
        begins = any(name.lower().startswith("starting") for name in self.source_options)
        own = {
            **({} if begins else {"startingOffsets": "earliest"}),
            "masterServers": self.master_servers,
            "consumerGroup": self.consumer_group,
            "subscribe": ",".join(self.topics),
        }
        return Masked({**self.source_options, **_WHOLE, **own})

    def write(self) -> Mapping[str, str]:
        """The options of the sink; may hold secrets. Times are written on the clock on which they are read, so that
        their text is kept."""
        zone = {name: value for name, value in self.source_options.items() if name.lower() == _TIME_ZONE}
        target = {} if self.to_topic is None else {"topic": self.to_topic}
        return Masked({**self.sink_options, **zone, **target, "masterServers": self.to_master_servers})


def load_mirror(path: Path) -> MirrorSettings:
    """The settings of a file. Raises ConfigurationError."""
    file = SettingsFile(path, ("mirror", "source", "sink"))
    options = {f"{table}_options": Masked(file.options(table)) for table in ("source", "sink")}
    return file.filled("mirror", MirrorSettings, {}, {}, **options)


def check_other_cluster(settings: MirrorSettings) -> None:
    """Raise ConfigurationError if a topic would be copied to itself. One cluster can have many names: so it goes by the
    brokers, as both clusters' masters name them. Raises TubeError if one cannot be asked."""
    both = {settings.to_topic or topic for topic in settings.topics}.intersection(settings.topics)
    if not both:
        return
    read, write = parse_options(settings.read()), write_options(parse_given(settings.write()))
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
    spark: SparkSession, settings: MirrorSettings, stop: threading.Event, say: Callable[[str], object] = lambda _: None
) -> int:
    """Copy until there is nothing left (available-now), or until `stop` is set, after the running batch; returns the
    rows. `say` gets a line for each batch. Raises Spark's error for a failed query, and what `check_other_cluster`
    raises."""
    check_other_cluster(settings)
    rows = spark.readStream.format("tubeclient").options(**settings.read()).load()
    messages = rows.selectExpr("topic", "value", "messageType AS tag", "messageTime", "attributes")
    writer = messages.writeStream.format("tubeclient").options(**settings.write())
    writer = writer.option("checkpointLocation", settings.checkpoint).queryName(f"mirror {settings.consumer_group}")
    query = writer.trigger(**settings.trigger_options).start()
    copied, last, give_up = 0, -1, math.inf
    try:
        over = False
        while not over:
            over = query.awaitTermination(_POLL_SECONDS) is True  # type: ignore[arg-type]
            between = not query.status["isTriggerActive"]
            for batch in query.recentProgress:
                if batch.batchId > last and batch.numInputRows:
                    copied, last, between = copied + batch.numInputRows, batch.batchId, True
                    say(f"batch {last}: {batch.numInputRows:,} rows")
            if stop.is_set():
                give_up = min(give_up, time.monotonic() + _STOP_SECONDS)
                over = over or between or time.monotonic() >= give_up
    finally:
        if query.isActive:
            query.stop()
    return copied


def mirror_topic(
    settings: Annotated[Path, typer.Option(help="TOML file with the settings, as conf/mirror.toml.")],
) -> None:
    """Copy topics to another cluster: value, tag, time and attributes.

    A streaming query reads the topics as a consumer group of the first
    cluster and sends each message to the second. The topics must exist there.

    At least once: no message is lost, and some may come twice. TubeMQ's
    brokers do not recognise a message that is sent again. So what a task
    sends again after a fault, or a batch that runs again after a kill, is
    there twice.

    The checkpoint says where to go on. With a new checkpoint the job begins
    at startingOffsets (default: earliest), and copies again what it finds there.

    Messages go to all partitions of the topic in turn, so their order is not
    kept. InLong's packs are copied as they are. Two jobs that copy a topic to
    and fro between two clusters copy it without end.

    Ctrl-C or SIGTERM to the Python process ends the job after the running
    batch, with exit code 0. Under spark-submit Ctrl-C reaches Spark as well
    and cuts the batch off: the next start sends that batch again.

    A password belongs in a file. The option authPasswordFile names it in
    the settings file.

    Example:

      spark-submit --properties-file conf/spark-defaults.conf \\
        jobs/mirror_topic.py --settings conf/mirror.toml
    """
    name = "mirror_topic.py"
    with clear_errors(name, ""):
        job = load_mirror(settings)
        stop = threading.Event()
        with on_spark(name) as spark:
            # Not before: the session puts its own handler of Ctrl-C in place.
            stop_on_signals(stop)
            rows = run_mirror(spark, job, stop, typer.echo)
        typer.echo(f"{'stopped' if stop.is_set() else 'done'}: {rows:,} rows")


if __name__ == "__main__":
    script_app(mirror_topic)()
