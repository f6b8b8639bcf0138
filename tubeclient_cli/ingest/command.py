"""`tubeclient ingest`: its arguments, its signals, its exit codes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from tubeclient.conditions import said
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.extras import MissingPackage, brought_by
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, WEB_PORT_VARIABLE
from tubeclient_cli.common.pairs import further_options, pairs, spark_confs
from tubeclient_cli.common.signals import stop_on_signals
from tubeclient_cli.common.terminal import ExitCode, SparkConf, SparkMaster, exit_code, print_json, tell
from tubeclient_cli.ingest.json_events import JsonEvents, error_event

__all__ = ["ingest"]


def ingest(
    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file with any of the settings below. Command-line options override it."),
    ] = None,
    master_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            help=f"The cluster's masters. Default: those of the settings file, or else of {MASTERS_VARIABLE}.",
        ),
    ] = None,
    consumer_group: Annotated[
        str | None, typer.Option(metavar="NAME", help="The group to read as; one job per group.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A topic to read; may be given several times.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Delta table for the rows; created if missing.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Spark's checkpoint. A new one continues where the target ends.")
    ] = None,
    offsets_table: Annotated[
        str | None, typer.Option(metavar="PATH", help="Delta table that keeps the groups' positions.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="What records are: raw (the default), json, csv or kv. raw: the target has the source's columns. With "
            "the others it has those of --schema, and a column tubemq that says where a row comes from.",
            autocompletion=lambda: ["raw", "json", "csv", "kv"],
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="The columns of records, as in CREATE TABLE: 'id BIGINT NOT NULL, name STRING'. Or a file whose name "
            "ends in .ddl.",
        ),
    ] = None,
    schema_from_inlong: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A stream's JSON from InLong's Manager: its fields instead of --schema, and its format, separator, "
            "escape character and encoding where they are not given. InLong's packs need --option payload=inlong, or "
            "payload=auto if other messages arrive as well.",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="Between the fields of csv (default: ,) or the pairs of kv (default: &)."),
    ] = None,
    escape: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR",
            help="Escape character of kv, and of csv as InLong writes it, which has no quotes. Default: none.",
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of the records, such as GBK (default: UTF-8).")
    ] = None,
    strict_encoding: Annotated[
        bool | None,
        typer.Option(
            "--strict-encoding",
            help="Records that are text in UTF-8 too, and another one than in --encoding, are bad.",
            show_default=False,
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="The time zone of times that are written without one, in records and on messages (messageTimeZone), "
            "such as Asia/Shanghai (default: UTC).",
        ),
    ] = None,
    format_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of Spark's from_json or from_csv, such as timestampFormat=yyyyMMddHHmmss; for kv also "
            "kvSeparator. May be given several times.",
        ),
    ] = None,
    evolve: Annotated[
        bool | None, typer.Option("--evolve", help="Add columns to the target that it lacks.", show_default=False)
    ] = None,
    bad_records: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The Delta table for records that cannot be parsed; created if missing. Each record is in it or in "
            "the target. Default: such a record ends the job.",
        ),
    ] = None,
    max_bad_records: Annotated[
        str | None,
        typer.Option(
            metavar="N|N%",
            help="The most bad records of a batch, or their share of it. With more the job ends before it writes "
            "anything of the batch. Default: any number.",
        ),
    ] = None,
    starting_offsets: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where to begin in topics without rows of the group in the target: earliest, latest, a time such as "
            "2026-11-21T10:31Z, or JSON. Default: the group's position in the offsets table, otherwise earliest. "
            "group: the position in the offsets table, even past the target's rows. target: after the group's last "
            "commit there, whatever rows were removed since. A checkpoint overrides this.",
        ),
    ] = None,
    begin_anew: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With a new checkpoint: begin this topic by --starting-offsets (default: earliest), wherever its rows "
            "in the target end. For a topic that was deleted and created again; any other topic gets rows twice. May "
            "be given several times.",
        ),
    ] = None,
    former_masters: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            help="The cluster's earlier masters, if --master-servers names none of them. Rows of another cluster are "
            "refused.",
        ),
    ] = None,
    source_count: Annotated[
        int | None, typer.Option(metavar="N", help="Nodes of the group: tasks that read in parallel.")
    ] = None,
    max_offsets_per_trigger: Annotated[
        int | None, typer.Option(metavar="N", help="The most rows of one batch.")
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="available-now (the default): read what there is and end. Or how often to start a batch, such as 10s.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A further option of the source, such as masterWebPort=8080 (default: that of the settings file, or "
            f"else {WEB_PORT_VARIABLE} of the environment, otherwise 8080).",
        ),
    ] = None,
    progress_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append one JSON object per batch to this file.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve figures of the running job for Prometheus, at /metrics of this port (0: any free one). Needs "
            "the extra metrics.",
        ),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="The address to serve them at; 0.0.0.0 lets other machines fetch them too, without a password.",
        ),
    ] = "127.0.0.1",
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each event: begin, batch, done, stopped, error.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show all that Spark writes. Default: warnings of the source.")
    ] = False,
) -> None:
    """Write a group's topics to a Delta table, each message once.

    Each commit holds a batch's rows and the offsets at which they end. So the
    table itself says where to continue. A job that is stopped, killed, or
    started again with a new checkpoint neither loses nor repeats a message.

    Ctrl-C or SIGTERM ends the job after the running batch, or once Spark is
    up, with exit code 0. A signal to all processes, Spark's as well, may cut
    off the batch; the next start then runs it again.

    Keys for the offsets table's storage belong in the settings file, table
    storage-options, best as {env = "NAME"}: everybody on the machine can read
    command lines.

    Example:

      tubeclient ingest --master-servers 10.0.0.1:8715 \\
        --consumer-group clicks_etl --topic clicks --trigger 10s \\
        --target /lake/clicks --checkpoint /lake/_checkpoints/clicks \\
        --offsets-table /lake/_offsets
    """
    overrides: dict[str, Any] = {
        "master_servers": master_servers,
        "consumer_group": consumer_group,
        "topics": tuple(topic) if topic else None,
        "target": target,
        "checkpoint": checkpoint,
        "offsets_table": offsets_table,
        "format": format,
        "schema": schema,
        "schema_from_inlong": schema_from_inlong,
        "separator": separator,
        "escape": escape,
        "encoding": encoding,
        "strict_encoding": strict_encoding,
        "time_zone": time_zone,
        "evolve": evolve,
        "bad_records": bad_records,
        "max_bad_records": max_bad_records,
        "starting_offsets": starting_offsets,
        "begin_anew": tuple(begin_anew) if begin_anew else None,
        "former_masters": former_masters,
        "source_count": source_count,
        "max_offsets_per_trigger": max_offsets_per_trigger,
        "trigger": trigger,
    }
    from tubeclient_cli.ingest.settings import OPTION_FLAGS

    try:
        overrides["source_options"] = further_options(option, OPTION_FLAGS) or None
        overrides["format_options"] = pairs("--format-option", format_option) or None
        confs = spark_confs(conf, "--time-zone")
        metrics = None if metrics_port is None else (metrics_host, metrics_port)
        code = _ingest(settings, overrides, progress_file, metrics, spark_master, confs, as_json, verbose)
    except (ConfigurationError, MissingPackage) as error:
        if as_json:
            print_json(error_event(said(error)))
        tell(f"tubeclient ingest: {said(error)}")
        raise typer.Exit(ExitCode.USAGE) from None
    raise typer.Exit(code)


def _ingest(
    file: Path | None,
    overrides: dict[str, Any],
    progress_file: Path | None,
    metrics_at: tuple[str, int] | None,
    master: str | None,
    confs: dict[str, str],
    as_json: bool,
    verbose: bool,
) -> int:
    import contextlib

    from tubeclient_cli.ingest.settings import load_settings

    settings = load_settings(file, overrides)

    with brought_by("spark"):
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

    from offsets_store import OffsetsTableError
    from spark_source.session import STARTING_SPARK
    from spark_source.spark_log import SparkLog, start_failure
    from tubeclient_cli.common.session import end_session, has_ended, hush_py4j, make_session
    from tubeclient_cli.ingest.advice import exit_code_of, short_cause, with_advice
    from tubeclient_cli.ingest.display import Display
    from tubeclient_cli.ingest.first_look import look_first
    from tubeclient_cli.ingest.group_look import group_in_use
    from tubeclient_cli.ingest.job import run_ingest
    from tubeclient_cli.ingest.progress import ProgressFile

    display: Display | JsonEvents = JsonEvents() if as_json else Display()
    metrics = None
    if metrics_at is not None:
        from tubeclient_cli.ingest.metrics import IngestMetrics

        metrics = IngestMetrics(settings, *metrics_at)
        display.say(f"metrics at http://{metrics_at[0]}:{metrics.port}/metrics")
    stop = threading.Event()
    stop_on_signals(stop)
    hush_py4j(while_set=stop)
    spark = None
    batches = 0
    with contextlib.ExitStack() as until_end:
        if metrics is not None:
            until_end.callback(metrics.close)
        refusal = None
        holders = None
        try:
            if (view := look_first(settings)) is not None and not stop.is_set():
                holders = group_in_use(settings, view)
        except TubeError as error:
            refusal = error
        if stop.is_set():
            display.stopped(_ENDED_BEFORE)
            return 0
        if refusal is not None:
            cause = with_advice(said(refusal))
            display.failed(cause)
            tell(f"tubeclient ingest: {cause}")
            return exit_code(refusal)
        if holders is not None:
            display.say(holders)
        display.say(STARTING_SPARK)
        log = None if verbose else until_end.enter_context(SparkLog())
        try:
            try:
                spark = make_session(f"tubeclient ingest {settings.consumer_group}", master, confs, log)
            except KeyboardInterrupt:  # raised by the session's SIGINT handler, before ours is back
                display.stopped(_ENDED_BEFORE)
                return 0
            # Again: the session installed a SIGINT handler that cancels the running batch.
            stop_on_signals(stop)
            with contextlib.ExitStack() as stack:
                stack.enter_context(display)
                written = stack.enter_context(ProgressFile(progress_file)) if progress_file is not None else None

                def on_batch(event: Any) -> None:
                    nonlocal batches
                    batches += 1
                    display.show(event)
                    if written is not None:
                        written.write(event)
                    if metrics is not None:
                        metrics.batch(event)

                def on_idle(at: str) -> None:
                    if metrics is not None:
                        metrics.looked(at)

                summary = run_ingest(spark, settings, on_batch, stop, display.start, on_idle, display.first)
        except (PySparkException, OffsetsTableError, Py4JError, OSError) as error:
            if stop.is_set() and (spark is None or has_ended(spark, _ENDING_SECONDS)):
                display.stopped(_ENDED_BEFORE if spark is None else _ENDED_WITH_SPARK)
                return 0
            why = start_failure(log.text()) if spark is None and log is not None else None
            cause = why or with_advice(short_cause(said(error)))
            if log is not None:
                log.keep()
                typer.echo(f"Spark's output is in {log.path}", err=True)
            display.failed(cause)
            until_end.callback(typer.echo, f"tubeclient ingest: {cause}", err=True)
            if isinstance(error, OffsetsTableError):
                return exit_code(error)
            return ExitCode.UNREACHABLE if spark is None else exit_code_of(cause, begun=batches > 0)
        finally:
            if spark is not None:
                end_session(spark)
    display.end(summary)
    return 0


_ENDED_BEFORE = "stopped: before Spark was up; nothing was read"
# A signal to all processes of a service also ends Spark's, which do not finish the batch.
_ENDED_WITH_SPARK = (
    "stopped: the signal ended Spark as well, perhaps during a batch; the next start with this checkpoint runs that"
    " batch again, and nothing is lost or repeated"
)
_ENDING_SECONDS = 10.0
