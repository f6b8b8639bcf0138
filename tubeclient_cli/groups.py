"""`tubeclient groups`: its arguments. Imports nothing heavy until a command runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from tubeclient.errors import TubeError
from tubeclient.keys import PartitionKey
from tubeclient.printable import counted
from tubeclient_cli.common.cluster import Masters, admin_of, further_options, settings_of
from tubeclient_cli.common.moves import DryRun, Yes, ask, check_can_ask, print_moves
from tubeclient_cli.common.terminal import (
    AsJson,
    FurtherOptions,
    TimeZone,
    clear_errors,
    named_group,
    print_json,
    print_stderr,
    table_console,
)
from tubeclient_cli.facts.groups import check_offline, group_facts, group_rows, planned_moves
from tubeclient_cli.facts.position_moves import parse_offset_spec

__all__ = ["groups_app"]

groups_app = typer.Typer(
    name="groups",
    help="Show consumer groups and the positions that brokers keep for them, and move these positions. For positions "
    "in an offsets table, use `tubeclient offsets`.",
    no_args_is_help=True,
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
def list_groups(master_servers: Masters, option: FurtherOptions = None, json: AsJson = False) -> None:
    """List the groups that have online clients or positions on the brokers.

    The topics of groups without clients are unknown. Reader groups, which
    queries use to read ranges, are left out. `offsets list` lists the groups of
    an offsets table.

    Example:

      tubeclient groups list --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups list"):
        from tubeclient_cli.common.tables import print_rows

        silent: dict[int, TubeError] = {}
        rows = group_rows(admin_of(master_servers, option), silent)
        for broker_id, error in silent.items():
            print_stderr(f"groups without online clients of broker {broker_id} are left out: {error}")
        if json:
            print_json({"groups": rows})
        elif rows:
            print_rows(table_console(), rows)
        else:
            typer.echo("the cluster has no groups; `offsets list` shows the groups of queries")


@groups_app.command("show")
def show_group(group: _Group, master_servers: Masters, option: FurtherOptions = None, json: AsJson = False) -> None:
    """Show a group's clients with their partitions, its positions on the brokers, and how many messages it is behind.

    Clients report with their heartbeats, and brokers save positions every 5 s,
    so the output may be some seconds old. A store's partitions share its index,
    so a partition's number of messages is an upper bound.

    A group with an offsets table uses the table's position, and `tubeclient
    ingest` its target's: the position here is then old or missing. `tubeclient
    offsets show` shows a table's position and lag.

    Example:

      tubeclient groups show clicks_etl --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups show"):
        shown = group_facts(admin_of(master_servers, option), group)
        if json:
            print_json(shown)
        else:
            _print(shown)


def _print(shown: Mapping[str, Any]) -> None:
    from tubeclient_cli.common.tables import beyond_end, print_rows, spans

    def short(partitions: Sequence[str]) -> list[str]:
        return spans(map(PartitionKey.parse, partitions))

    console = table_console()
    if shown["clients"]:
        clients, topics = counted(len(shown["clients"]), "client"), ", ".join(shown["topics"])
        console.print(f"{shown['group']}: {clients}, topics {topics}", soft_wrap=True)
        for topic, tags in shown["filters"].items():
            console.print(f"{topic} is filtered by the tags {', '.join(tags)}", soft_wrap=True)
        print_rows(console, [{**row, "partitions": short(row["partitions"])} for row in shown["clients"]])
        if shown["unowned"]:
            console.print(f"without an owner: {', '.join(short(shown['unowned']))}", soft_wrap=True)
    else:
        console.print(f"group {shown['group']} has no clients online", soft_wrap=True)
    if shown["partitions"]:
        print_rows(console, shown["partitions"])
        console.print(f"total messages behind, as of the brokers, at most: {shown['messagesBehindAtMost']:,}")
    else:
        console.print(
            f"no broker has a position for group {shown['group']}; check its name. A query or ingest job with an "
            "offsets table keeps the position there: see `tubeclient offsets show`. A job without one keeps it in "
            "its target: endOffsets in the userMetadata of the newest commit",
            soft_wrap=True,
        )
    if shown["beyondEnd"]:
        console.print(beyond_end(shown["beyondEnd"]), soft_wrap=True)


@groups_app.command()
def move(
    group: _Group,
    master_servers: Masters,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="earliest, latest, a time such as 2026-11-21T10:31Z, an offset, or JSON from partitions to offsets, "
            'as in {"1:clicks:0": 2800}: other partitions do not move.',
        ),
    ],
    topic: _Topics = None,
    time_zone: TimeZone = "UTC",
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Move the group even if it has online clients.")] = False,
    yes: Yes = False,
    option: FurtherOptions = None,
    json: AsJson = False,
) -> None:
    """Move the positions that brokers keep for a group.

    For consumers, and for queries that start with startingOffsets=group and
    have no offsets table. A query with a checkpoint continues from its
    checkpoint, and one with an offsets table from the table: move that with
    `offsets reset`.

    The command refuses a group with online clients. With --force its consumers
    continue at the new positions, and drop what they have in flight.

    Example:

      tubeclient groups move clicks_etl --to 2026-11-21T10:31Z --dry-run \\
        --master-servers 10.0.0.1:8715
    """
    with clear_errors("groups move"):
        from tubeclient.wire.message_time import zone_named

        check_can_ask(as_json=json, yes=yes, dry_run=dry_run)
        zone = zone_named(time_zone)
        spec = parse_offset_spec(to, "--to", zone)
        settings = settings_of(master_servers, further_options(option))
        admin = admin_of(master_servers, option)
        if not (dry_run or force):
            check_offline(admin, group)
        plan = planned_moves(settings, admin, group, topic or [], spec, zone.key)
        if not json:
            print_moves(f"group {group}", plan.moves, plan.warnings, dry_run=dry_run)
        changed = bool(plan.moves) and not dry_run
        if changed:
            ask(f"Move group {group}?", yes=yes)
            if not force:  # the search for a time may take long, and so may the user
                check_offline(admin, group)
            admin.set_offsets(group, {move.partition: move.end for move in plan.moves})
        if json:
            print_json({"group": group, "changed": changed, "moves": [move.row() for move in plan.moves]})
        elif changed:
            typer.echo(f"moved group {group} on the brokers")
