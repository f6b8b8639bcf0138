"""How commands reach a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.pairs import further_options

if TYPE_CHECKING:
    from tubeclient.admin import Admin
    from tubeclient.settings import ClientSettings

__all__ = ["MASTERS_VARIABLE", "Masters", "admin_of", "no_topic", "settings_of"]

MASTERS_VARIABLE: Final = "TUBECLIENT_MASTER_SERVERS"
"""The environment variable with the masters for commands that are not given `--master-servers`."""

Masters = Annotated[
    str,
    typer.Option("--master-servers", metavar="HOST:PORT,...", envvar=MASTERS_VARIABLE, help="The cluster's masters."),
]


def settings_of(master_servers: str, options: Mapping[str, str]) -> ClientSettings:
    """The client's settings from the source's options of connections, given with `--option`. ConfigurationError for an
    option that is not one of them."""
    from spark_source.options.access import client_settings
    from spark_source.options.given import access_options

    return client_settings(access_options({**options, "masterServers": master_servers}))


def admin_of(master_servers: str, option: list[str] | None) -> Admin:
    """What looks at the cluster, and changes no topics. `option` are the values of `--option`. ConfigurationError."""
    from tubeclient.admin import Admin

    return Admin(settings_of(master_servers, further_options(option, {})))


def no_topic(name: str) -> ConfigurationError:
    """The error for a topic that the cluster does not have."""
    return ConfigurationError(
        f"the cluster has no topic {name}; `tubeclient topics list` shows what there is", condition="TOPIC_NOT_FOUND"
    )
