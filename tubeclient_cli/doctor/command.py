"""`tubeclient doctor`: its arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, with_web_port
from tubeclient_cli.common.pairs import further_options, pairs, spark_confs
from tubeclient_cli.common.printable import counted, one_line
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    FurtherOptions,
    SparkConf,
    SparkMaster,
    StorageOptions,
    clear_errors,
    exit_code,
    print_json,
)
from tubeclient_cli.doctor.finding import Finding, good, note, problem, verdict

if TYPE_CHECKING:
    from tubeclient_cli.doctor.cluster import Addresses

__all__ = ["doctor"]

_TABLE_SECONDS: Final = 60.0
_START_SECONDS: Final = 180.0


def doctor(
    master_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            envvar=MASTERS_VARIABLE,
            help="The cluster's masters; without it none is checked.",
        ),
    ] = None,
    consumer_group: Annotated[
        str | None, typer.Option(metavar="NAME", help="The group, to check with --topic whether it can read.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A topic to read; may be given several times.")
    ] = None,
    offsets_table: Annotated[str | None, typer.Option(metavar="PATH", help="The groups' offsets table.")] = None,
    executors: Annotated[
        bool, typer.Option("--executors", help="Start Spark, and check its executors as well: 10 to 60 s more.")
    ] = False,
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    json: AsJson = False,
) -> None:
    """Check what a query needs: Java, Python, packages, jars, cluster, table.

    Each line says OK or PROBLEM, and below it how to mend it. Nothing is
    changed, and the group's nodes are not touched. Each check ends by itself,
    the slowest, Spark's start, after three minutes.

    Examples:

      tubeclient doctor

      tubeclient doctor --master-servers 10.0.0.1:8715 \\
        --consumer-group clicks_etl --topic clicks --executors
    """
    with clear_errors("doctor"):
        options = further_options(option, {})
        if (consumer_group is None) is not (topic is None):
            raise ConfigurationError("give --consumer-group and --topic together")
        if consumer_group is not None and master_servers is None:
            raise ConfigurationError("--consumer-group needs --master-servers")
        if master_servers is not None:
            options = {**with_web_port(options), "masterServers": master_servers}
        if consumer_group is not None:
            options |= {"consumerGroup": consumer_group, "subscribe": ",".join(topic or [])}
        confs = spark_confs(conf)
        findings = []
        storage = pairs("--storage-option", storage_option)
        for found in _findings(options, offsets_table, storage, executors, spark_master, confs):
            findings.append(found)
            if not json:
                _print(found)
        code = verdict(findings)
        if json:
            rows = [one._asdict() | {"code": int(one.code), "ok": one.is_ok} for one in findings]
            print_json({"ok": code is ExitCode.DONE, "findings": rows})
        else:
            wrong = sum(not one.is_ok for one in findings)
            typer.echo(counted(wrong, "problem") if wrong else "all is well")
        raise typer.Exit(code)


def _findings(
    options: Mapping[str, str],
    table: str | None,
    storage: Mapping[str, str],
    executors: bool,
    master: str | None,
    confs: Mapping[str, str],
) -> Iterator[Finding]:
    from tubeclient_cli.doctor.machine import check_machine

    yield from check_machine()
    from tubeclient_cli.doctor.cluster import Addresses, check_cluster

    addresses = Addresses()
    if "masterServers" in options:
        from tubeclient_cli.common.cluster import settings_of

        of_group = ("masterServers", "consumerGroup", "subscribe")
        connecting = {name: value for name, value in options.items() if name not in of_group}
        settings = settings_of(options["masterServers"], connecting)
        yield from check_cluster(settings, {"rpcTimeout": "5s", "retryLimit": "10s", **options}, addresses)
    if table is not None:
        yield _check_table(table, storage)
    if executors:
        yield from _check_executors(master, confs, addresses)


def _check_table(uri: str, storage: Mapping[str, str]) -> Finding:
    from offsets_store import OffsetsTable, OffsetsTableError
    from tubeclient.conditions import said
    from tubeclient_cli.common.deadline import within

    def look() -> Collection[object] | None:
        opened = OffsetsTable(uri, storage)
        return opened.groups() if opened.exists() else None

    try:
        groups = within(_TABLE_SECONDS, look)
    except OffsetsTableError as error:
        return problem("offsets table", said(error), "", exit_code(error))
    except TimeoutError as error:
        action = "look at the table's storage: its address, the network to it, its keys"
        return problem("offsets table", str(error), action, ExitCode.UNREACHABLE)
    if groups is None:
        return note("offsets table", "is not there yet", "the first query with it creates it")
    return good("offsets table", f"has {counted(len(groups), 'group')}")


def _check_executors(master: str | None, confs: Mapping[str, str], addresses: Addresses) -> Iterator[Finding]:
    from spark_source.session import STARTING_SPARK, is_connect
    from spark_source.spark_log import SparkLog, start_failure
    from tubeclient.conditions import said
    from tubeclient.extras import MissingPackage, brought_by
    from tubeclient_cli.common.deadline import within
    from tubeclient_cli.common.live import live_line
    from tubeclient_cli.common.session import end_session, make_session
    from tubeclient_cli.doctor.executors import check_executors
    from tubeclient_cli.doctor.machine import judge_spark

    with brought_by("spark"):
        import pyspark
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

    with SparkLog() as log:
        try:
            with live_line(lambda: STARTING_SPARK):
                spark = within(_START_SECONDS, lambda: make_session("tubeclient doctor", master, confs, log))
        except (ConfigurationError, MissingPackage, PySparkException, Py4JError, OSError) as error:
            log.keep()
            why = start_failure(log.text()) or said(error).split("\n")[0]
            yield problem("Spark", why, f"its output is in {log.path}", ExitCode.UNREACHABLE)
            return
        try:
            where = "Spark Connect" if is_connect(spark) else str(spark.sparkContext.master)
            yield judge_spark(spark.version, where, pyspark.__version__)
            yield from check_executors(spark, addresses)
        finally:
            end_session(spark)


def _print(found: Finding) -> None:
    typer.echo(one_line(f"{'OK     ' if found.is_ok else 'PROBLEM'}  {found.check}: {found.text}"))
    if found.action:
        typer.echo(one_line(f"         {found.action}"))
