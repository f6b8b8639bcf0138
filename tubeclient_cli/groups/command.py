"""`tubeclient groups`: its arguments. Imports nothing heavy until a command runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tubeclient.errors import ConfigurationError, TubeError
from tubeclient_cli.common.asking import DryRun, Yes, ask, check_can_ask
from tubeclient_cli.common.cluster import Masters, admin_of, settings_of
from tubeclient_cli.common.pairs import further_options
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.signals import until_interrupted
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    FurtherOptions,
    StorageOptions,
    TimeZone,
    clear_errors,
    named_group,
    print_json,
    table_console,
    tell,
    telling_done,
)

if TYPE_CHECKING:
    from tubeclient.admin import Admin

__all__ = ["groups_app"]

groups_app = typer.Typer(
    name="groups",
    help="Show consumer groups and the positions that brokers keep of them, and move these. For those in an offsets "
    "table there is `tubeclient offsets`.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

_Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False, parser=named_group)
]
_Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="Only this topic; may be given several times. Default: all in which the group has positions.",
    ),
]


@groups_app.command("list")
def list_groups(
    master_servers: Masters,
    everyone: Annotated[
        bool, typer.Option("--all", help="Also groups without clients online of which the brokers keep positions.")
    ] = False,
    offsets_table: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="As --all, and the groups of this offsets table too, such as those of jobs."),
    ] = None,
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """List the groups with clients online: consumers, and queries of Spark.

    With --all or --offsets-table each is online or offline, with where it is
    known. Reader groups, with which queries read ranges, are left out there.
    `offsets list` lists a table's groups without the cluster.

    Examples:

      tubeclient groups list --master-servers 10.0.0.1:8715

      tubeclient groups list --offsets-table /lake/_offsets \\
        --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups list"):
        from tubeclient_cli.groups.display import groups_json, known_json, print_groups, print_known
        from tubeclient_cli.groups.known import known_groups

        if storage_option and offsets_table is None:
            raise ConfigurationError("--storage-option is for the offsets table; add --offsets-table")
        admin = admin_of(master_servers, option)
        if not everyone and offsets_table is None:
            found = admin.groups()
            if json:
                print_json(groups_json(found))
            else:
                print_groups(table_console(), found)
            return
        known = known_groups(admin, offsets_table, storage_option)
        if json:
            print_json(known_json(known))
        else:
            print_known(table_console(), known)


@groups_app.command("show")
def show_group(group: _Group, master_servers: Masters, option: FurtherOptions = None, json: AsJson = False) -> None:
    """Show which client, or node, of a group has which partitions, as the master knows it.

    Clients report with their heartbeats, so what is shown may be some seconds
    old.

    Example:

      tubeclient groups show clicks_etl --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups show"):
        from tubeclient_cli.groups.display import group_json, print_group

        admin = admin_of(master_servers, option)
        found = admin.group(group)
        partitions = [key for topic in admin.topics(found.topics) for key in topic.partitions()] if found.topics else []
        if json:
            print_json(group_json(found, partitions))
        else:
            print_group(table_console(), found, partitions)


@groups_app.command()
def lag(
    group: _Group, master_servers: Masters, topic: _Topics = None, option: FurtherOptions = None, json: AsJson = False
) -> None:
    """Show a group's positions at the brokers, and how many rows are behind.

    A store's partitions share its index, so the rows of one partition are an
    upper bound. Brokers save positions every 5 s. A group with an offsets
    table, as of `tubeclient ingest`, goes by the table: its position here
    is old, or the group has none. `tubeclient offsets lag` shows its lag.

    Example:

      tubeclient groups lag clicks_etl --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups lag"):
        from tubeclient_cli.groups.display import lag_json, print_lag

        found = admin_of(master_servers, option).group_offsets(group, topic or [])
        if json:
            print_json(lag_json(found))
        else:
            print_lag(table_console(), found)


@groups_app.command()
def move(
    group: _Group,
    master_servers: Masters,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="earliest, latest, a time such as 2026-11-21T10:31Z, an offset, or JSON from partitions to "
            'offsets, as in {"1:clicks:0": 2800}: partitions that are not named stay.',
        ),
    ],
    topic: _Topics = None,
    time_zone: TimeZone = "UTC",
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Move a group that has clients online.")] = False,
    yes: Yes = False,
    option: FurtherOptions = None,
    json: AsJson = False,
) -> None:
    """Move the positions that brokers keep of a group.

    For consumers, and for queries that begin with startingOffsets=group and
    have no offsets table. A query with a checkpoint goes on from that, and one
    with an offsets table from the table: `offsets reset` moves it.

    A group with clients online is refused. With --force its consumers go on
    at the new positions; what they have in flight is dropped.

    Example:

      tubeclient groups move clicks_etl --to 2026-11-21T10:31Z --dry-run \\
        --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups move"):
        from tubeclient.wire.message_time import zone_named
        from tubeclient_cli.common.places import parse_place
        from tubeclient_cli.groups.display import moves_json, print_moves
        from tubeclient_cli.groups.moving import check_move_holds, planned

        check_can_ask(as_json=json, yes=yes, dry_run=dry_run)
        zone = zone_named(time_zone)
        spec = parse_place(to, "--to", zone)
        settings = settings_of(master_servers, further_options(option, {}))
        admin = admin_of(master_servers, option)
        if not (dry_run or force):
            _check_offline(admin, group, "--force moves it anyway")
        moves = planned(settings, admin, group, topic or [], spec, zone.key)
        if not json:
            print_moves(table_console(), group, moves, dry_run=dry_run)
        changed = bool(moves) and not dry_run
        if changed:
            ask(f"Move group {group}?", yes=yes)
            if not force:  # the search for a time may take long, too
                _check_offline(admin, group, "--force moves it anyway")
            if not (yes or force):
                check_move_holds(admin, group, moves)
            with _telling_interruption("groups move"):
                admin.set_offsets(group, {key: after for key, _, after in moves})
            if not force:
                _tell_newcomers(admin, group, "groups move")
        document = moves_json(group, moves, changed) if json else None
        _tell_changed("groups move", document, f"group {group} was moved at the brokers" if changed else None)


@groups_app.command()
def clone(
    group: _Group,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The group that gets the positions.", parser=named_group)
    ],
    master_servers: Masters,
    topic: _Topics = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: FurtherOptions = None,
    json: AsJson = False,
) -> None:
    """Give another group the positions that brokers keep of a group.

    Positions of TARGET in other topics stay. TARGET must have no clients
    online.

    Example:

      tubeclient groups clone clicks_etl clicks_trial --dry-run \\
        --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups clone"):
        from tubeclient_cli.groups.display import moves_json, print_moves
        from tubeclient_cli.groups.moving import check_clone_holds, cloned

        check_can_ask(as_json=json, yes=yes, dry_run=dry_run)
        if group == target:
            raise ConfigurationError(f"group {group} is also the target; name another group")
        admin = admin_of(master_servers, option)
        if not dry_run:
            _check_offline(admin, target, "clone to another one")
        moves = cloned(admin, group, target, topic or [])
        if not json:
            print_moves(table_console(), target, moves, dry_run=dry_run)
        changed = bool(moves) and not dry_run
        if changed:
            ask(f"Give group {target} these positions?", yes=yes)
            _check_offline(admin, target, "clone to another one")
            if not yes:
                check_clone_holds(admin, group, target, topic or [], moves)
            with _telling_interruption("groups clone"):
                admin.clone_offsets(group, target, topic or [])
            _tell_newcomers(admin, target, "groups clone")
        document = moves_json(target, moves, changed) if json else None
        done = f"group {target} has the positions of {group} at the brokers" if changed else None
        _tell_changed("groups clone", document, done)


def _tell_changed(command: str, document: dict[str, Any] | None, done: str | None) -> None:
    """Print the document, or else what was done; None for `done`: nothing was changed."""
    with telling_done(command, done):
        if document is not None:
            print_json(document)
        elif done is not None:
            typer.echo(done)


def _check_offline(admin: Admin, group: str, otherwise: str) -> None:
    if members := admin.group(group).members:
        raise ConfigurationError(
            f"group {group} has {counted(len(members), 'client')} online, {members[0].client_id} among them; stop "
            f"them, or {otherwise}"
        )


def _tell_newcomers(admin: Admin, group: str, command: str) -> None:
    """Say so if the group came online during the change: the brokers take a position whoever reads there."""
    try:
        members = admin.group(group).members
    except TubeError as error:
        tell(f"tubeclient {command}: warning: it is unknown whether clients of group {group} came online: {error}")
        return
    if members:
        tell(
            f"tubeclient {command}: warning: group {group} came online during the change, with"
            f" {counted(len(members), 'client')}, {members[0].client_id} among them. They go on at the new positions."
            " What they read before that, from the old ones, is neither undone nor confirmed"
        )


@contextlib.contextmanager
def _telling_interruption(command: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the change with a line that says what is done."""
    with until_interrupted():
        try:
            yield
        except KeyboardInterrupt as interruption:
            [told] = getattr(interruption, "__notes__", ["Nothing was changed"])
            typer.echo(f"tubeclient {command}: interrupted. {told}", err=True)
            raise typer.Exit(ExitCode.FAILED) from None
