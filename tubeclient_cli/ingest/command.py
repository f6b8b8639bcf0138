"""`tubeclient ingest`: its arguments, its signals, its exit codes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tubeclient.conditions import said
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.extras import MissingPackage, brought_by
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, WEB_PORT_VARIABLE, of_environment, pairs, spark_confs
from tubeclient_cli.common.terminal import (
    ExitCode,
    SparkConf,
    SparkMaster,
    exit_code,
    exit_code_of,
    print_json,
    stop_on_signals,
    tell,
)
from tubeclient_cli.ingest.json_events import JsonEvents, error_event

if TYPE_CHECKING:
    pass

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
        str | None,
        typer.Option(
            metavar="TABLE",
            help="The Delta table for the rows, made if missing: a path or URI, which has a slash, or a name as "
            "catalog.schema.table. Its newest commit says where the job goes on.",
        ),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to partition a new target by; may be given several times."),
    ] = None,
    cluster_by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to cluster a new target by; may be given several times."),
    ] = None,
    table_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A property of a new target, such as delta.autoOptimize.autoCompact=true; may be given several times.",
        ),
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
            metavar="TABLE",
            help="The Delta table for records that cannot be parsed, as --target. Each record is in it or in the "
            "target. Default: such a record ends the job.",
        ),
    ] = None,
    max_bad_records: Annotated[
        str | None,
        typer.Option(
            metavar="N|N%",
            help="The most bad records of a round, or their share of it. With more the job ends before it writes "
            "anything of the round. Default: any number.",
        ),
    ] = None,
    starting_offsets: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where to begin in topics without rows of the group in the target: earliest, latest, a time such as "
            "2026-11-21T10:31Z, or JSON. Default: the group's position in the offsets table, otherwise earliest. "
            "group: the position in the offsets table, even past the target's rows. target: after the group's last "
            "commit there, whatever was done to the table since.",
        ),
    ] = None,
    begin_anew: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only say in the target that the group begins this topic by --starting-offsets (default: earliest), "
            "wherever its rows end, and end. For a topic that was deleted and created again; any other topic gets rows "
            "twice. May be given several times.",
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
        int | None, typer.Option(metavar="N", help="The most rows of one round.")
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="available-now (the default): read what there is and end. Or how often to start a round, such as 10s.",
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
        Path | None, typer.Option(metavar="FILE", help="Append one JSON object per round to this file.")
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
        bool,
        typer.Option(
            "--json", help="Print one JSON object for each event: starting, begin, round, done, stopped, error."
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show all that Spark writes. Default: warnings of the source.")
    ] = False,
) -> None:
    """Write a group's topics to a Delta table, each message once.

    Each commit holds a round's rows and the offsets at which they end. So the
    table itself says where to continue, and nothing else does. A job that is
    stopped or killed and started again neither loses nor repeats a message.

    Ctrl-C or SIGTERM ends the job after the running round, or once Spark is
    up, with exit code 0. A signal to all processes, Spark's as well, may cut
    off the round; the next start then reads it again.

    Keys for the offsets table's storage belong in the settings file, table
    storage-options, best as {env = "NAME"}: everybody on the machine can read
    command lines.

    Example:

      tubeclient ingest --master-servers 10.0.0.1:8715 \\
        --consumer-group clicks_etl --topic clicks --trigger 10s \\
        --target /lake/clicks --offsets-table /lake/_offsets
    """
    overrides: dict[str, Any] = {
        "master_servers": master_servers,
        "consumer_group": consumer_group,
        "topics": topic,
        "target": target,
        "partition_by": partition_by,
        "cluster_by": cluster_by,
        "offsets_table": offsets_table,
        "format": format,
        "schema": schema,
        "schema_from_inlong": schema_from_inlong,
        "separator": separator,
        "escape": escape,
        "encoding": encoding,
        "time_zone": time_zone,
        "evolve": evolve,
        "bad_records": bad_records,
        "max_bad_records": max_bad_records,
        "starting_offsets": starting_offsets,
        "former_masters": former_masters,
        "source_count": source_count,
        "max_offsets_per_trigger": max_offsets_per_trigger,
        "trigger": trigger,
    }
    try:
        overrides["source_options"] = pairs("--option", option) or None
        overrides["format_options"] = pairs("--format-option", format_option) or None
        overrides["table_properties"] = pairs("--table-property", table_property) or None
        confs = spark_confs(conf)
        metrics = None if metrics_port is None else (metrics_host, metrics_port)
        code = _ingest(
            settings, overrides, begin_anew or [], progress_file, metrics, spark_master, confs, as_json, verbose
        )
    except (ConfigurationError, MissingPackage) as error:
        if as_json:
            print_json(error_event(said(error)))
        tell(f"tubeclient ingest: {said(error)}")
        raise typer.Exit(ExitCode.USAGE) from None
    raise typer.Exit(code)


def _ingest(
    file: Path | None,
    overrides: dict[str, Any],
    begin_anew: list[str],
    progress_file: Path | None,
    metrics_at: tuple[str, int] | None,
    master: str | None,
    confs: dict[str, str],
    as_json: bool,
    verbose: bool,
) -> int:
    import contextlib

    from tubeclient_ingest.settings import load_settings

    settings = load_settings(file, overrides, of_environment())

    with brought_by("spark"):
        from tubeclient_ingest.job import Ingest, IngestFailed
        from tubeclient_ingest.progress import Events, ProgressFile, ToAll
        from tubeclient_ingest.target import spark_errors

    from offsets_store import OffsetsTableError
    from spark_source.session import STARTING_SPARK
    from spark_source.spark_log import SparkLog, start_failure
    from tubeclient_cli.common.session import end_session, has_ended, hush_py4j, make_session
    from tubeclient_cli.ingest.display import Display
    from tubeclient_cli.ingest.first_look import look_first
    from tubeclient_cli.ingest.on_spark import leave
    from tubeclient_ingest.advice import short_cause, with_advice

    display: Display | JsonEvents = JsonEvents() if as_json else Display()
    stop = threading.Event()
    with contextlib.ExitStack() as until_end:
        also: list[Events] = []
        if metrics_at is not None:
            from tubeclient_cli.ingest.metrics import IngestMetrics

            metrics = until_end.enter_context(IngestMetrics(settings.consumer_group, *metrics_at))
            also.append(metrics)
            display.say(f"metrics at http://{metrics_at[0]}:{metrics.port}/metrics")
        stop_on_signals(stop)
        hush_py4j(while_set=stop)

        def failed(cause: str, code: int) -> int:
            display.failed(cause)
            until_end.callback(typer.echo, f"tubeclient ingest: {cause}", err=True)
            return code

        try:
            look_first(settings)
        except TubeError as error:
            if not stop.is_set():
                return failed(with_advice(said(error)), exit_code(error))
        if stop.is_set():
            display.stopped(_ENDED_BEFORE)
            return 0
        display.say(STARTING_SPARK)
        log = None if verbose else until_end.enter_context(SparkLog())
        try:
            spark = make_session(f"tubeclient ingest {settings.consumer_group}", master, confs, log)
        except KeyboardInterrupt:  # raised by the session's SIGINT handler, before ours is back
            display.stopped(_ENDED_BEFORE)
            return 0
        except spark_errors() as error:
            if stop.is_set():
                display.stopped(_ENDED_BEFORE)
                return 0
            why = start_failure(log.text()) if log is not None else None
            leave(log)
            return failed(why or short_cause(said(error)), ExitCode.UNREACHABLE)
        # Again: the session installed a SIGINT handler that cancels the running round.
        stop_on_signals(stop)
        job = Ingest.of(spark, settings, stop)
        shown = ToAll()
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(display)
                if progress_file is not None:
                    also.append(stack.enter_context(ProgressFile(progress_file)))
                if begin_anew:
                    display.begins(job.begin_anew(begin_anew))
                    return 0
                shown = ToAll(display, *also)
                summary = job.run(shown)
        except (TubeError, OffsetsTableError) as error:
            if stop.is_set() and has_ended(spark, _ENDING_SECONDS):
                display.stopped(_ENDED_WITH_SPARK)
                return 0
            leave(log)
            code = exit_code_of(said(error)) if isinstance(error, IngestFailed) else exit_code(error)
            return failed(said(error), ExitCode.FAILED if code is ExitCode.USAGE and shown.reading else code)
        finally:
            end_session(spark)
    display.end(summary)
    return 0


_ENDED_BEFORE = "stopped: before Spark was up; nothing was read"
# A signal to all processes of a service also ends Spark's, which do not finish the round.
_ENDED_WITH_SPARK = (
    "stopped: the signal ended Spark as well, perhaps during a round; the next start reads that round again, and"
    " nothing is lost or repeated"
)
_ENDING_SECONDS = 10.0
