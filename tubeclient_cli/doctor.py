"""`tubeclient doctor`: what a query needs of this machine, the cluster and the offsets table."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient.printable import counted
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, further_options, settings_of, with_web_port
from tubeclient_cli.common.terminal import (
    ExitCode,
    FurtherOptions,
    StorageOptions,
    Unreachable,
    clear_errors,
    exit_code,
    one_line,
)

_PACKAGES: Final = ("protobuf", "pyspark", "pyarrow", "pandas", "numpy", "deltalake")
_FOR_INGEST: Final = "delta-spark"
_LEAST_JAVA: Final = 17
_JAVA_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 3.0

_Check = tuple[str, Callable[[], str]]
"""What is checked, and a call that says what it found, or raises what is wrong with it."""


def doctor(
    master_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            envvar=MASTERS_VARIABLE,
            help="The cluster's masters; without this, no cluster is checked.",
        ),
    ] = None,
    consumer_group: Annotated[
        str | None, typer.Option(metavar="NAME", help="The group; with --topic, checks whether it can read.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A topic to read; may be given several times.")
    ] = None,
    offsets_table: Annotated[str | None, typer.Option(metavar="PATH", help="The groups' offsets table.")] = None,
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
) -> None:
    """Check what a query needs: Java, Python, packages, cluster, table.

    Each line says OK, or PROBLEM and how to fix it. The command changes
    nothing, and does not touch the group's nodes.

    Examples:

      tubeclient doctor

      tubeclient doctor --master-servers 10.0.0.1:8715 \\
        --consumer-group clicks_etl --topic clicks
    """
    with clear_errors("doctor"):
        from offsets_store.errors import OffsetsTableError
        from tubeclient.conditions import error_text
        from tubeclient.errors import TubeError

        options = further_options(option)
        if (consumer_group is None) is not (topic is None):
            raise ConfigurationError("give --consumer-group and --topic together")
        if consumer_group is not None and master_servers is None:
            raise ConfigurationError("--consumer-group needs --master-servers")
        checks = [("Java", _java), ("Python", _python), ("packages", _packages)]
        if master_servers is not None:
            of_group = {"consumerGroup": consumer_group, "subscribe": ",".join(topic or [])} if consumer_group else {}
            checks += _of_cluster(master_servers, {"rpcTimeout": "5s", "retryLimit": "10s", **options}, of_group)
        if offsets_table is not None:
            checks.append(("offsets table", lambda: _table(offsets_table, storage_option)))
        codes = []
        for name, check in checks:
            try:
                code, text = ExitCode.DONE, check()
            except (TubeError, OffsetsTableError, Unreachable) as error:
                code, text = exit_code(error), error_text(error)
            codes.append(code)
            typer.echo(one_line(f"{'PROBLEM' if code else 'OK     '}  {name}: {text}"))
        wrong = sum(code is not ExitCode.DONE for code in codes)
        typer.echo(counted(wrong, "problem") if wrong else "all is well")
        raise typer.Exit(max(codes))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    try:
        done = subprocess.run(
            [path or "java", "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        fault = "no java found in JAVA_HOME or PATH"
    else:
        found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
        if found is not None and int(found[1]) >= _LEAST_JAVA:
            return f"{found[1]}, {path}"
        fault = f"{path} is Java {found[1]}" if found else f"{path} does not show its version"
    raise ConfigurationError(
        f"{fault}; install JDK {_LEAST_JAVA}, and set JAVA_HOME to it", condition="JAVA_NOT_USABLE"
    )


def _python() -> str:
    """Ours, and the one with which Spark looks for data sources."""
    from spark_source.session import file_of_source, python_of

    variable, python = python_of(os.environ)
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}, {sys.executable}"
    if (file := file_of_source(python)) is not None:
        return f"{ours}; Spark's, {python}, has {file}"
    text = f'{python} does not find pyspark_tubeclient, so format("tubeclient") would be DATA_SOURCE_NOT_FOUND'
    if variable is None:  # commands set it themselves
        return f"{ours}; {text}: set PYSPARK_PYTHON={sys.executable} for notebooks and scripts of your own"
    raise ConfigurationError(f"{text}; set {variable}={sys.executable}")


def _packages() -> str:
    there = {}
    for name in _PACKAGES:
        try:
            there[name] = version(name)
        except PackageNotFoundError:
            extra = "managed" if name.startswith("delta") else "spark"  # `delta` might bring another pyspark
            raise ConfigurationError(
                f"{name} is missing; pip install 'pyspark-tubeclient[{extra}]'", condition="PACKAGE_MISSING"
            ) from None
    found = ", ".join(f"{name} {number}" for name, number in there.items())
    try:
        return f"{found}, {_FOR_INGEST} {version(_FOR_INGEST)}"
    except PackageNotFoundError:
        return f"{found}; no {_FOR_INGEST}, which ingest needs unless Spark has Delta's jars"


def _of_cluster(master_servers: str, options: Mapping[str, str], of_group: Mapping[str, str]) -> list[_Check]:
    from tubeclient.admin import Admin
    from tubeclient.admin.broker_webs import named_brokers, own_web

    settings = settings_of(master_servers, options)

    def web_port() -> str:
        listed = [broker for broker in Admin(own_web(settings)).brokers() if broker.is_in_service]
        return f"{settings.master_web_port} lists {counted(len(listed), 'broker')} in service"

    def brokers() -> str:
        addresses = [broker.address for broker in named_brokers(settings)]
        for address in addresses:
            _reach(address)
        return f"{', '.join(addresses) or 'none'} reached"

    def topics() -> str:
        from spark_source.cluster.cluster import TubeCluster, check_scope
        from spark_source.options.given import parse_options

        parsed = parse_options({**with_web_port(options), "masterServers": master_servers, **of_group})
        view = TubeCluster(parsed).fetch_view()
        check_scope(parsed, view)
        return f"its reader groups may read {counted(len(view.partitions()), 'partition')}"

    checks: list[_Check] = [
        ("masters", lambda: f"they name {counted(len(named_brokers(settings)), 'broker')}"),
        ("masters' web port", web_port),
        ("brokers", brokers),
    ]
    return [*checks, (f"topics of group {of_group['consumerGroup']}", topics)] if of_group else checks


def _reach(address: str) -> None:
    from tubeclient.net.connection import split_address

    try:
        socket.create_connection(split_address(address), timeout=_CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{address} not reached: {error}; start the broker, or open the network to it") from None


def _table(uri: str, storage_options: list[str] | None) -> str:
    from tubeclient_cli.common.cluster import offsets_table_at

    table = offsets_table_at(uri, storage_options, may_be_new=True)
    if not table.exists():
        return "does not exist yet: the first query that uses it creates it"
    return f"has {counted(len(table.groups()), 'group')}"
