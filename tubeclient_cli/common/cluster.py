"""How commands reach a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.pairs import further_options

if TYPE_CHECKING:
    from tubeclient.admin import Admin
    from tubeclient.settings import ClientSettings

__all__ = [
    "MASTERS_VARIABLE",
    "WEB_PORT_VARIABLE",
    "Masters",
    "admin_of",
    "masters_of_environment",
    "no_topic",
    "of_environment",
    "settings_of",
    "with_web_port",
]

MASTERS_VARIABLE: Final = "TUBECLIENT_MASTER_SERVERS"
"""The environment variable with the masters for commands that are not given `--master-servers`."""
WEB_PORT_VARIABLE: Final = "TUBECLIENT_MASTER_WEB_PORT"
"""The environment variable with the masters' web port for commands that are not given `--option masterWebPort`."""

Masters = Annotated[
    str,
    typer.Option("--master-servers", metavar="HOST:PORT,...", envvar=MASTERS_VARIABLE, help="The cluster's masters."),
]


def masters_of_environment() -> dict[str, str]:
    """The setting `master_servers` of `MASTERS_VARIABLE`, for jobs whose settings name none; {} without the
    variable."""
    masters = os.environ.get(MASTERS_VARIABLE)
    return {"master_servers": masters} if masters else {}


def of_environment() -> dict[str, object]:
    """What an ingest job has of the environment where its settings say nothing: masters and their web port."""
    return {**masters_of_environment(), "source_options": with_web_port({})}


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
    from spark_source.options.access import client_settings
    from spark_source.options.given import access_options

    return client_settings(access_options({**with_web_port(options), "masterServers": master_servers}))


def admin_of(master_servers: str, option: list[str] | None) -> Admin:
    """What looks at the cluster, and changes no topics. `option` are the values of `--option`. ConfigurationError, also
    for a web port of another cluster; TubeError if the web port does not answer."""
    from tubeclient.admin import Admin
    from tubeclient.admin.broker_webs import own_web

    return Admin(own_web(settings_of(master_servers, further_options(option))))


def no_topic(name: str, near: str) -> ConfigurationError:
    """The error for a topic that the cluster does not have. `near` is what `tubeclient.names.near_names` gave."""
    return ConfigurationError(
        f"the cluster has no topic {name}; {f'{near} ' if near else ''}`tubeclient topics list` shows what there is",
        condition="TOPIC_NOT_FOUND",
    )
