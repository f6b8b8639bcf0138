"""`tubeclient ingest`: its arguments, its signals, its exit codes."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tubeclient.arguments import kinds_of
from tubeclient.conditions import error_text
from tubeclient.errors import TubeError
from tubeclient.extras import brought_by
from tubeclient_cli.common.cluster import of_environment, pairs, spark_confs
from tubeclient_cli.common.terminal import (
    ExitCode,
    SparkConf,
    SparkMaster,
    Unreachable,
    clear_errors,
    exit_code,
    print_stderr,
    stop_on_signals,
)
from tubeclient_ingest.settings.ingest_settings import IngestSettings

if TYPE_CHECKING:
    from tubeclient_cli.ingest.output import EventPrinter

_FLAGS: Final = {
    field.name: field.metadata["flag"] or "--" + field.name.replace("_", "-")
    for field in fields(IngestSettings)
    if field.metadata
}


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each setting, instead of its last argument, `**given`."""
    first, *others, _ = inspect.signature(command, eval_str=True).parameters.values()
    flags, kinds = [], kinds_of(IngestSettings)
    for field in fields(IngestSettings):
        if field.metadata:
            how = typer.Option(
                _FLAGS[field.name],
                metavar=field.metadata["metavar"] or None,
                help=field.metadata["help"],
                show_default=False,
            )
            kind: Any = list[str] if kinds[field.name] in (tuple, Mapping) else kinds[field.name]
            annotation = Annotated[kind | None, how]
            flags.append(
                inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            )
    all_of_them = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (first, *flags, *others)]
    command.__signature__ = inspect.Signature(all_of_them)  # type: ignore[attr-defined]
    return command


@_with_settings
def ingest(
    settings: Annotated[
        Path | None,
        typer.Option(help="A TOML file with any of the settings below. Command-line options override it."),
    ] = None,
    reset_offsets: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only reset the offsets of this topic: record in the target that the group continues at "
            "--starting-offsets (default: earliest), wherever the topic's rows end. Use it for a topic that was "
            "deleted and recreated; on any other topic this duplicates rows. May be given several times.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve the running job's metrics for Prometheus at /metrics on this port (0: any free port). Needs "
            "the extra metrics.",
        ),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="The address to serve metrics on; 0.0.0.0 lets other machines fetch them too, without a password.",
        ),
    ] = "127.0.0.1",
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object for each event: starting, begin, writer, left, rest, round, done, "
            "stopped, error.",
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show all of Spark's output. Default: only the source's warnings.")
    ] = False,
    **given: Any,
) -> None:
    """Write a group's topics to a Delta table, each message once.

    Each commit holds a round's rows and the offsets at which they end. So only
    the table itself says where to continue. If you stop or kill the job and
    start it again, no message is lost or repeated.

    Ctrl-C or SIGTERM ends the job after the running round, or as soon as Spark
    is up, with exit code 0. A signal to all processes, including Spark's, may
    cut off the round; the next start then reads it again.

    Put keys for the offsets table's storage into the settings file, table
    storage-options, preferably as {env = "NAME"}: everybody on the machine can
    read command lines.

    Example:

      tubeclient ingest --master-servers 10.0.0.1:8715 \\
        --consumer-group clicks_etl --topic clicks --trigger 10s \\
        --target /lake/clicks --offsets-table /lake/_offsets
    """
    with clear_errors("ingest"):
        with brought_by("spark"):
            from tubeclient_cli.ingest.output import EventPrinter, print_error
            from tubeclient_ingest.settings.load_settings import load_settings

        output = EventPrinter(as_json=as_json)
        try:
            for name in ("source_options", "format_options", "table_properties"):
                given[name] = pairs(_FLAGS[name], given[name]) or None
            confs = spark_confs(conf)
            found = load_settings(settings, given, of_environment())
            found.check_topics(reset_offsets or [])
            with contextlib.ExitStack() as until_end:
                if metrics_port is not None:
                    from tubeclient_cli.ingest.metrics import serve_metrics

                    serving = serve_metrics(found.consumer_group, metrics_host, metrics_port)
                    output.count, port = until_end.enter_context(serving)
                    output.say(f"metrics at http://{metrics_host}:{port}/metrics")
                _ingest(found, reset_offsets or [], spark_master, confs, output, verbose=verbose)
        except Exception as error:
            if as_json:
                print_error(error)
            # What was right at the start, and is wrong by now, is no wrong usage.
            if output.reading and exit_code(error) is ExitCode.USAGE:
                print_stderr(f"tubeclient ingest: {error_text(error)}")
                raise typer.Exit(ExitCode.FAILED) from None
            raise


def _ingest(
    settings: IngestSettings,
    reset_offsets: list[str],
    master: str | None,
    confs: dict[str, str],
    output: EventPrinter,
    *,
    verbose: bool,
) -> None:
    with brought_by("spark"):
        from tubeclient_ingest.job import Ingest
        from tubeclient_ingest.lineage import open_client
        from tubeclient_ingest.run import Engine
        from tubeclient_ingest.tables.spark_errors import explained

    from offsets_store import OffsetsTableError
    from spark_source.options.given import parse_options
    from tubeclient_cli.common.session import has_ended, on_spark, silence_py4j

    if settings.lineage is not None:
        open_client()  # what is wrong with it is told before Spark starts
    stop = threading.Event()
    stop_on_signals(stop, "stopping as soon as Spark is up")
    silence_py4j(while_set=stop)
    with explained(), contextlib.closing(Engine.planner(parse_options(settings.options("earliest")))) as planner:
        planner.freeze_end()  # a wrong address or topic is told before Spark starts, which takes long
    name = f"tubeclient ingest {settings.consumer_group}"
    try:
        with on_spark(name, master, confs, say=output.say, verbose=verbose, stop=stop) as spark:
            # Again: the session installed a SIGINT handler that cancels the running round.
            stop_on_signals(stop, "stopping, after the running round")
            job = Ingest(spark, settings=settings, stop=stop)
            if reset_offsets:
                output.say(job.reset_offsets(reset_offsets), "begin")
                return
            try:
                summary = job.run(output)
            except (TubeError, OffsetsTableError):
                if not (stop.is_set() and has_ended(spark, _ENDING_SECONDS)):
                    raise
                output.say(_ENDED_WITH_SPARK, "stopped")
                return
    except KeyboardInterrupt:  # raised by the session's SIGINT handler, before ours is back
        output.say(_ENDED_BEFORE, "stopped")
    except Unreachable:
        if not stop.is_set():
            raise
        output.say(_ENDED_BEFORE, "stopped")
    else:
        output.end(summary)


_ENDED_BEFORE = "stopped before Spark was up; nothing was read"
# A signal to all processes of a service also ends Spark's, which do not finish the round.
_ENDED_WITH_SPARK = (
    "stopped: the signal also ended Spark, perhaps during a round; the next start reads that round again, and "
    "nothing is lost or repeated"
)
_ENDING_SECONDS = 10.0
