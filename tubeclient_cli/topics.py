"""`tubeclient topics`: its arguments. Imports nothing heavy until a command runs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient.names import new_topic_name
from tubeclient.printable import counted
from tubeclient_cli.common.cluster import Masters, admin_of, further_options, settings_of
from tubeclient_cli.common.terminal import AsJson, ExitCode, FurtherOptions, clear_errors, print_json, table_console
from tubeclient_cli.facts.topics import no_topic, topic_json

if TYPE_CHECKING:
    from tubeclient.admin import Admin, DeployedTopic

__all__ = ["topics_app"]

_TOKEN_VARIABLE = "TUBECLIENT_MODIFY_TOKEN"  # noqa: S105 - the variable's name

_POLL_SECONDS = 1.0
_WAIT_SECONDS = 120.0
"""Apache's brokers load a change within 35 s, and within 80 s if they are still loading an earlier one."""

topics_app = typer.Typer(
    name="topics",
    help="Show, create and alter a cluster's topics.",
    no_args_is_help=True,
)

_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]
_TokenFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A file with the masters' confModAuthToken, which changes need. Default: the environment variable "
        f"{_TOKEN_VARIABLE}. It is never printed.",
    ),
]


@topics_app.command("list")
def list_topics(master_servers: Masters, option: FurtherOptions = None, json: AsJson = False) -> None:
    """List the topics of a cluster, with their brokers and partitions.

    Example:

      tubeclient topics list --master-servers 10.0.0.1:8715
    """
    with clear_errors("topics list"):
        from tubeclient_cli.common.tables import print_rows

        found = admin_of(master_servers, option).topics()
        if json:
            print_json({"topics": [topic_json(topic) for topic in found]})
        elif found:
            rows = [
                {
                    **topic_json(topic),
                    "brokers": len(topic.on_brokers),
                    "loaded": all(on.is_loaded for on in topic.on_brokers),
                }
                for topic in found
            ]
            print_rows(table_console(), rows)
        else:
            typer.echo("the cluster has no topics")


@topics_app.command("show")
def show_topic(topic: _Topic, master_servers: Masters, option: FurtherOptions = None, json: AsJson = False) -> None:
    """Show a topic's brokers, stores and partitions, and the messages that its brokers hold.

    Example:

      tubeclient topics show clicks --master-servers 10.0.0.1:8715
    """
    with clear_errors("topics show"):
        from tubeclient_cli.common.tables import print_rows

        admin = admin_of(master_servers, option)
        found = topic_json(_one(admin, topic), admin.store_bounds([topic]))
        if json:
            print_json(found)
        else:
            console = table_console()
            console.print(f"{topic}: messages of at most {found['maxMessageBytes']:,} bytes", soft_wrap=True)
            print_rows(console, found["brokers"])
            print_rows(console, found["stores"])


@topics_app.command("create")
def create_topic(
    topic: _Topic,
    master_servers: Masters,
    stores: Annotated[int, typer.Option(metavar="N", min=1, help="Stores on each broker.")] = 1,
    partitions: Annotated[int, typer.Option(metavar="N", min=1, help="Partitions of each store.")] = 1,
    token_file: _TokenFile = None,
    option: FurtherOptions = None,
) -> None:
    """Create a topic on all brokers in service, and wait until they have loaded it.

    Example:

      tubeclient topics create clicks --stores 2 --partitions 4 \\
        --master-servers 10.0.0.1:8715 --token-file /etc/tubemq/token
    """
    with clear_errors("topics create"):
        topic = new_topic_name(topic)
        admin = _changing_admin(master_servers, option, token_file)
        if admin.topics([topic]):
            raise ConfigurationError(f"topic {topic} already exists; use `tubeclient topics alter` to change it")
        admin.create_topic(topic, stores=stores, partitions_per_store=partitions)
        _after(admin, topic, "created", stores, partitions)


@topics_app.command("alter")
def alter_topic(
    topic: _Topic,
    master_servers: Masters,
    stores: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stores on each broker.")] = None,
    partitions: Annotated[int | None, typer.Option(metavar="N", min=1, help="Partitions of each store.")] = None,
    token_file: _TokenFile = None,
    option: FurtherOptions = None,
) -> None:
    """Change a topic on all its brokers, and wait until they have loaded it.

    A topic can grow, but not shrink.

    Example:

      tubeclient topics alter clicks --partitions 8 \\
        --master-servers 10.0.0.1:8715 --token-file /etc/tubemq/token
    """
    with clear_errors("topics alter"):
        if stores is None and partitions is None:
            raise ConfigurationError("nothing to change; give --stores or --partitions")
        admin = _changing_admin(master_servers, option, token_file)
        for on in _one(admin, topic).on_brokers:
            if (stores or on.stores) < on.stores or (partitions or on.partitions_per_store) < on.partitions_per_store:
                raise ConfigurationError(
                    f"topic {topic} has {on.stores} stores of {on.partitions_per_store} partitions on {on.broker} "
                    "and cannot shrink"
                )
        admin.alter_topic(topic, stores=stores, partitions_per_store=partitions)
        _after(admin, topic, "altered", stores, partitions)


def _changing_admin(master_servers: str, option: list[str] | None, token_file: str | None) -> Admin:
    from tubeclient.admin import Admin
    from tubeclient.admin.broker_webs import own_web

    if token_file is None and not os.environ.get(_TOKEN_VARIABLE):
        raise ConfigurationError(
            "changes need the masters' confModAuthToken from master.ini (for `tubeclient server`: embedded); give a "
            f"file with --token-file, or set the environment variable {_TOKEN_VARIABLE}"
        )
    settings = own_web(settings_of(master_servers, further_options(option)))
    if token_file is not None:
        return Admin(settings, modify_token_file=token_file)
    return Admin(settings, modify_token_env=_TOKEN_VARIABLE)


def _one(admin: Admin, name: str) -> DeployedTopic:
    for topic in admin.topics([name]):
        return topic
    raise no_topic(name, admin.topic_names())


def _after(admin: Admin, name: str, what: str, stores: int | None, partitions: int | None) -> None:
    """Wait until all brokers have loaded the change, and tell. Exit code 1 if that takes too long."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        topic = _one(admin, name)
        if all(
            on.is_loaded and stores in (None, on.stores) and partitions in (None, on.partitions_per_store)
            for on in topic.on_brokers
        ):
            there = counted(len(topic.partitions()), "partition")
            typer.echo(f"topic {name} was {what}: {there} on {counted(len(topic.on_brokers), 'broker')}")
            return
        if time.monotonic() >= deadline:
            typer.echo(f"topic {name} was {what}; some brokers have not loaded it yet, check with `topics show`")
            raise typer.Exit(ExitCode.FAILED)
        time.sleep(_POLL_SECONDS)
