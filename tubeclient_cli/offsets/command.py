"""`tubeclient offsets`: show the positions of groups in an offsets table, and move them.

The commands as typer shows them. Imports nothing heavy until a command runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, Masters
from tubeclient_cli.common.offsets_tables import nothing_kept, progress_in, table_at
from tubeclient_cli.common.places import DryRun, Yes, ask, check_can_ask, print_moves
from tubeclient_cli.common.printable import one_line
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    FurtherOptions,
    StorageOptions,
    TimeZone,
    clear_errors,
    exit_code,
    named_group,
    print_json,
    table_console,
    tell,
)

__all__ = ["offsets_app"]

offsets_app = typer.Typer(
    name="offsets",
    help="Show how far groups have read, in an offsets table, and move them there. For the positions that brokers keep "
    "there is `tubeclient groups`.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

_Table = Annotated[str, typer.Option(metavar="PATH", help="The Delta table that keeps the groups' positions.")]
_Group = Annotated[str, typer.Option(metavar="NAME", help="The consumer group.", parser=named_group)]
_Topics = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A topic of the set to move; may be given several times. Needed if the group has more sets.",
    ),
]
_Pattern = Annotated[
    str | None, typer.Option(metavar="REGEX", help="Instead of topics, for a group that reads by subscribePattern.")
]
_Masters = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        envvar=MASTERS_VARIABLE,
        help="The cluster's masters, to query the brokers as well.",
    ),
]


@offsets_app.command("list")
def list_groups(offsets_table: _Table, storage_option: StorageOptions = None, json: AsJson = False) -> None:
    """List the groups of an offsets table: topics, partitions, last commit.

    Example:

      tubeclient offsets list --offsets-table /lake/_offsets
    """
    with clear_errors("offsets list"):
        from offsets_store import SchemaMismatch
        from tubeclient_cli.common.tables import print_rows
        from tubeclient_cli.offsets import display as display

        table = table_at(offsets_table, storage_option)
        found = {}
        for name in table.groups():
            try:
                found[name] = progress_in(table, name)
            except (ConfigurationError, SchemaMismatch, ValueError) as error:
                tell(f"group {name!r} is left out: {error}")
        rows = display.group_rows(found)
        if json:
            print_json({"groups": rows})
        elif rows:
            print_rows(table_console(), rows)
        else:
            typer.echo("the offsets table has no group yet: a query writes to it when it starts")


@offsets_app.command()
def show(
    offsets_table: _Table,
    consumer_group: _Group,
    master_servers: _Masters = None,
    max_lag: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Exit with 1 if more rows are left to read than this.")
    ] = None,
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Show a group's position in each partition, who reads it, and how many rows are behind.

    With --master-servers as of now, otherwise as of the group's last commit. A
    store's partitions share its index, so the rows of one partition are an
    upper bound. A store counts by its partition that is furthest behind.

    Probes and alerts can use --max-lag; each topic set that the group reads
    counts by itself. `status` needs no bound.
    """
    with clear_errors("offsets show"):
        from tubeclient_cli.offsets import display as display
        from tubeclient_cli.offsets.brokers import brokers_of
        from tubeclient_cli.offsets.status import lag_at_commit, lag_now

        table = table_at(offsets_table, storage_option)
        if option and master_servers is None:
            raise ConfigurationError("--option is for the connection to the cluster; add --master-servers")
        sets, above = [], False
        for progress in progress_in(table, consumer_group):
            if master_servers is None:
                lag = lag_at_commit(progress)
            else:
                with brokers_of(master_servers, progress.group, option) as brokers:
                    lag = lag_now(progress, brokers)
            sets.append(display.progress_json(progress, lag))
            if not json:
                display.print_progress(table_console(), consumer_group, sets[-1])
            if max_lag is None:
                continue
            if lag.rows_behind is None:
                raise ConfigurationError("--max-lag needs the ends of all partitions; add --master-servers")
            if lag.beyond or lag.rows_behind > max_lag:
                why = f"{lag.rows_behind:,} messages behind, more than --max-lag {max_lag:,}"
                tell(f"{progress.group.topic_set}: {'a position is beyond its end' if lag.beyond else why}")
                above = True
        if not sets:
            raise nothing_kept(table, consumer_group)
        if json:
            print_json({"consumerGroup": consumer_group, "topicSets": sets})
        if above:
            raise typer.Exit(ExitCode.FAILED)


@offsets_app.command()
def history(
    offsets_table: _Table,
    consumer_group: _Group,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The most commits to show.")] = 20,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Show who moved a group when: its commits, newest first.

    From the table's log and its older versions, as long as they are kept: a
    day by default. Use a commit's number in `reset --to batch:N`.
    """
    with clear_errors("offsets history"):
        from tubeclient_cli.offsets import display as display

        table = table_at(offsets_table, storage_option)
        found = table.history(consumer_group, limit)
        if not found.commits:
            raise nothing_kept(table, consumer_group)
        rows = [*map(display.commit_row, found.commits)]
        if json:
            print_json({"consumerGroup": consumer_group, "cut": found.cut, "commits": rows})
        else:
            display.print_history(table_console(), rows, cut=found.cut)


@offsets_app.command()
def status(
    offsets_table: _Table,
    master_servers: Masters,
    consumer_group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The consumer group (default: all of the table).", parser=named_group),
    ] = None,
    max_silence: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long the group may leave rows unread without a commit, such as 30m (default: as long as the "
            "last ten commits took without their longest pause, at least 5m).",
        ),
    ] = None,
    option: FurtherOptions = None,
    time_zone: TimeZone = "UTC",
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Say whether a group is well, by its last commits and what is unread.

    There is no number of rows to choose: a group is judged by how it moves.

      OK       nothing to read, or it keeps pace
      WARN     it moves, but its lag never falls: it is too slow
      REWIND   it went back, and is not yet where it was
      STALL    it commits, but a partition with unread rows stays
      STOP     rows wait, and it does not commit any more; or what it read
               is no longer at the brokers
      UNKNOWN  cannot be judged: a broker does not answer

    The group has the worst verdict of its partitions. Exit code 0 is for OK, 1
    for WARN, REWIND, STALL and STOP. It is 3 if all is OK as far as known, but
    some partitions cannot be judged. Of all groups the worst counts.
    """
    with clear_errors("offsets status"):
        from offsets_store.health import Verdict
        from spark_source.options.parsers import duration_ms
        from tubeclient.conditions import said
        from tubeclient_cli.offsets import display as display
        from tubeclient_cli.offsets.status import statuses

        try:
            silence = None if max_silence is None else timedelta(milliseconds=duration_ms(1)(max_silence))
        except ValueError as error:
            raise ConfigurationError(f"--max-silence {error}") from None
        table = table_at(offsets_table, storage_option)
        names = table.groups() if consumer_group is None else [consumer_group]
        codes, found = {ExitCode.DONE}, []
        for name, one in statuses(table, names, master_servers, option, max_silence=silence, time_zone=time_zone):
            if isinstance(one, Exception):
                if consumer_group is not None:
                    raise one
                tell(f"{name}: {said(one)}")  # no reason to leave out the others
                codes.add(exit_code(one))
                continue
            found.append(display.status_json(one))
            if not json:
                display.print_status(table_console(), found[-1])
            if one.health.verdict not in (Verdict.OK, Verdict.UNKNOWN):
                codes.add(ExitCode.FAILED)
            elif one.health.unjudged:
                codes.add(ExitCode.UNREACHABLE)
        if json:
            print_json({"groups": found})
        raise typer.Exit(min(codes - {ExitCode.DONE}, default=ExitCode.DONE))


@offsets_app.command()
def maintain(
    offsets_table: _Table,
    retention_hours: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="How long older versions stay readable, as for `history` (default: a day)."
        ),
    ] = None,
    storage_option: StorageOptions = None,
) -> None:
    """Clean an offsets table up: a checkpoint of its log, and no files that no kept version needs.

    Queries go on meanwhile. There is nothing to compact: each commit replaces
    a group's one file. What grows is the history.
    """
    with clear_errors("offsets maintain"):
        deleted = table_at(offsets_table, storage_option).maintain(retention_hours)
        typer.echo(f"done: {deleted:,} files deleted")


@offsets_app.command()
def reset(
    offsets_table: _Table,
    consumer_group: _Group,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="earliest, latest, a time such as 2026-11-21T10:31Z, batch:N, an offset, or JSON as in "
            'startingOffsets, {"1:clicks:0": 2800}: partitions that are not named stay.',
        ),
    ],
    master_servers: Masters,
    topic: _Topics = None,
    topic_pattern: _Pattern = None,
    option: FurtherOptions = None,
    time_zone: TimeZone = "UTC",
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Reset a group that is live.")] = False,
    yes: Yes = False,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Move a group to other positions in its topics.

    The new positions apply to whatever starts from the table: a query with a
    NEW checkpoint and startingOffsets=group, or a consumer that reads its
    position here. Kept initial offsets of a query whose first batch did not
    complete are dropped. A query with a checkpoint continues from its
    checkpoint, and sets the table back; `tubeclient ingest` continues from its
    target.

    batch:N is the group's position after its commit N, see `history`. If the
    brokers no longer hold a position, the nearest one that they hold is used,
    with a warning.

    A live group is refused: one that recorded something in the last 30
    seconds, or that has consumers at the master. --force resets it anyway,
    and a running query stops at its next commit with [RUN_SUPERSEDED].

    Example:

      tubeclient offsets reset --offsets-table /lake/_offsets \\
        --consumer-group clicks_etl --to 2026-11-21T10:31Z \\
        --master-servers 10.0.0.1:8715 --dry-run
    """
    with clear_errors("offsets reset"):
        from offsets_store.rows import RESET
        from tubeclient._version import __version__
        from tubeclient_cli.offsets.brokers import brokers_of
        from tubeclient_cli.offsets.reset import Reset, choose_key

        check_can_ask(as_json=json, yes=yes, dry_run=dry_run)
        is_named = bool(topic or topic_pattern)
        table = table_at(offsets_table, storage_option, may_be_new=is_named, client_version=f"{__version__} {RESET}")
        found = progress_in(table, consumer_group)
        if not (found or is_named):
            raise nothing_kept(table, consumer_group)
        key = choose_key(found, consumer_group, topic or [], topic_pattern)
        with brokers_of(master_servers, key, option) as brokers:
            work = Reset(table, key, brokers, force=force)
            plan = work.plan(to, time_zone)
            if not json:
                for warning in plan.warnings:
                    typer.echo(one_line(f"warning: {warning}"))
                print_moves(table_console(), str(key), plan.moves, dry_run=dry_run)
            changed = plan.changes and not dry_run
            if changed:
                run = work.take_over(plan)  # before the question: it refuses a live group
                ask("Reset the group?", yes=yes)
                work.apply(plan, run)
        if json:
            moves = [move.row() for move in plan.moves]
            told = {"consumerGroup": key.consumer_group, "topicSet": key.topic_set, "to": to, "changed": changed}
            print_json({**told, "moves": moves, "warnings": list(plan.warnings)})
        elif plan.changes:
            typer.echo(
                f"the group {'was' if changed else 'would be'} reset; a query with a checkpoint continues from that, "
                "and `tubeclient ingest` from its target, not from the table"
            )
