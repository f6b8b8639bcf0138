"""How commands reach a cluster and an offsets table, and the options NAME=VALUE for that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient.names import near_names

if TYPE_CHECKING:
    from offsets_store import OffsetsTable
    from tubeclient.admin import Admin
    from tubeclient.settings import ClientSettings


MASTERS_VARIABLE: Final = "TUBECLIENT_MASTER_SERVERS"
"""The environment variable with the masters for commands that are not given `--master-servers`."""
WEB_PORT_VARIABLE: Final = "TUBECLIENT_MASTER_WEB_PORT"
"""The environment variable with the masters' web port for commands that are not given `--option masterWebPort`."""

_FLAGS: Final = {"masterservers": "--master-servers", "consumergroup": "--consumer-group", "subscribe": "--topic"}

Masters = Annotated[
    str,
    typer.Option("--master-servers", metavar="HOST:PORT,...", envvar=MASTERS_VARIABLE, help="The cluster's masters."),
]


def of_environment() -> dict[str, object]:
    """What an ingest job has of the environment where its settings say nothing: masters and their web port."""
    masters = os.environ.get(MASTERS_VARIABLE)
    return {**({"master_servers": masters} if masters else {}), "source_options": with_web_port({})}


def with_web_port(options: Mapping[str, str]) -> dict[str, str]:
    """The source's options, with the web port of `WEB_PORT_VARIABLE` if they say none. ConfigurationError if the
    variable is not a port."""
    port = os.environ.get(WEB_PORT_VARIABLE, "").strip()
    if not port or any(name.lower() == "masterwebport" for name in options):
        return dict(options)
    from spark_source.options import parsers as to

    try:
        to.integer(1, 65535)(port)
    except ValueError as error:
        raise ConfigurationError(f"the environment variable {WEB_PORT_VARIABLE} {error}") from None
    return {**options, "masterWebPort": port}


def settings_of(master_servers: str, options: Mapping[str, str]) -> ClientSettings:
    """The client's settings from the source's options of connections, given with `--option` or by the environment.
    ConfigurationError for an option that is not one of them."""
    from spark_source.options.access import AccessOptions, client_settings
    from spark_source.options.given import parse_given

    given = parse_given({**with_web_port(options), "masterServers": master_servers})
    return client_settings(given.of(AccessOptions))


def admin_of(master_servers: str, option: list[str] | None) -> Admin:
    """What looks at the cluster, and changes no topics. `option` are the values of `--option`. ConfigurationError, also
    for a web port of another cluster; TubeError if the web port does not answer."""
    from tubeclient.admin import Admin
    from tubeclient.admin.broker_webs import own_web

    return Admin(own_web(settings_of(master_servers, further_options(option))))


def pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """Names to values. ConfigurationError if a text is not a pair."""
    found = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            # Without the text: it may hold a secret.
            raise ConfigurationError(f"{flag} takes NAME=VALUE, but one of its values has no name or no equals sign")
        found[name.strip()] = value
    return found


def spark_confs(texts: list[str] | None) -> dict[str, str]:
    """Spark's settings given with `--conf`. ConfigurationError for one that ingest jobs have a setting for."""
    from spark_source.session_confs import SESSION_ZONE

    found = pairs("--conf", texts)
    if SESSION_ZONE in found:
        raise ConfigurationError(f"--conf {SESSION_ZONE} has its own setting, time-zone; set it there")
    return found


def further_options(texts: list[str] | None, flags: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The source's options given with `--option`.

    ConfigurationError for an option that has a flag. `flags` maps the command's options, in lower case, to their flags;
    flags that all commands share need not be in it.
    """
    found = pairs("--option", texts)
    for name in found:
        flag = {**_FLAGS, **flags}.get(name.lower())
        if flag is not None:
            raise ConfigurationError(f"--option {name} has its own flag, {flag}")
    return found


def offsets_table_at(
    uri: str, storage_options: list[str] | None, *, may_be_new: bool = False, client_version: str | None = None
) -> OffsetsTable:
    """The table at `uri`. ConfigurationError if there is none, and for an option that is not NAME=VALUE."""
    from offsets_store import OffsetsTable
    from spark_source.options.table_uris import limited
    from tubeclient.printable import display_uri

    options = limited(uri, pairs("--storage-option", storage_options))
    table = OffsetsTable(uri, options, client_version=client_version)
    if not (may_be_new or table.exists()):
        raise ConfigurationError(
            f"there is no Delta table at {display_uri(uri)}; check --offsets-table. The first batch of a query with "
            "the option offsetsTable creates the table"
        )
    return table


def no_progress(table: OffsetsTable, consumer_group: str) -> ConfigurationError:
    """The error for a group of which the table has nothing; it names groups that are spelled alike."""
    groups = table.groups()
    advice = near_names([consumer_group], groups, most=3) or (
        "check both names" if groups else "it has no group yet: a query writes to it when it starts"
    )
    return ConfigurationError(f"the offsets table has nothing for group {consumer_group}; {advice}")


def check_address(option: str, address: str) -> None:
    """ConfigurationError if it is empty, as an unset variable is: a socket would listen on all of the machine's. Also
    for a name that resolvers do not take."""
    fault = "" if address.strip() else "empty"
    try:
        address.encode("idna")
    except UnicodeError:
        fault = f"{address!r}, which is not a host name"
    if fault:
        raise ConfigurationError(
            f"{option} is {fault}; give an address: 127.0.0.1 for this machine alone, 0.0.0.0 for all that reach it"
        )
