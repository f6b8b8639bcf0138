"""`tubeclient offsets`: show the positions of groups in an offsets table, and move them.

The commands as typer shows them. Imports nothing heavy until a command runs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, Masters
from tubeclient_cli.common.moves import DryRun, Yes, ask, check_can_ask
from tubeclient_cli.common.offsets_tables import listed, no_table, nothing_kept, progress_in, table_at
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
        from tubeclient_cli.offsets import display as display

        found = listed(offsets_table, storage_option)
        if json:
            print_json(display.groups_json(found))
        else:
            display.print_groups(table_console(), found)


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
        from tubeclient_cli.offsets.lag import lag_at_commit, lag_now

        table = table_at(offsets_table, storage_option)
        found = []
        for progress in progress_in(table, consumer_group):
            with brokers_of(master_servers, progress.group, option) as brokers:
                found.append((progress, lag_at_commit(progress) if brokers is None else lag_now(progress, brokers)))
        if not found:
            raise nothing_kept(table, offsets_table, consumer_group)
        above = False
        for progress, lag in found:
            if not json:
                display.print_progress(table_console(), progress, lag)
            if max_lag is None:
                continue
            if lag.rows_behind is None:
                raise ConfigurationError(
                    "--max-lag needs the ends of all partitions, and the last commit has not all of them; add "
                    "--master-servers"
                )
            why = f"{lag.rows_behind:,} messages behind, more than --max-lag {max_lag:,}"
            if lag.beyond:
                why = f"the position of {lag.beyond[0]} is beyond the last message that its broker has"
            if lag.beyond or lag.rows_behind > max_lag:
                tell(f"{progress.group.topic_set}: {why}")
                above = True
        if json:
            sets = [display.progress_json(progress, lag) for progress, lag in found]
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
            raise nothing_kept(table, offsets_table, consumer_group)
        if json:
            print_json(display.history_json(consumer_group, found))
        else:
            display.print_history(table_console(), found)


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
        from offsets_store import OffsetsTableError
        from offsets_store.health import Verdict
        from spark_source.options.moment import duration_ms
        from tubeclient.conditions import said
        from tubeclient.errors import TubeError
        from tubeclient_cli.offsets import display as display
        from tubeclient_cli.offsets.brokers import brokers_of
        from tubeclient_cli.offsets.status import group_status

        silence = None if max_silence is None else timedelta(milliseconds=duration_ms("--max-silence", max_silence))
        table = table_at(offsets_table, storage_option)
        groups = table.groups() if consumer_group is None else [consumer_group]
        if not groups and not table.exists():
            raise no_table(offsets_table)
        codes, found = {ExitCode.DONE}, []
        for group in groups:
            try:
                past = table.past(group)
                if past is None:
                    raise nothing_kept(table, offsets_table, group)
                with brokers_of(master_servers, past.group, option) as brokers:
                    assert brokers is not None
                    one = group_status(past, brokers, datetime.now(UTC), max_silence=silence, time_zone=time_zone)
            except (TubeError, OffsetsTableError) as error:
                if consumer_group is not None:
                    raise
                tell(f"{group}: {said(error)}")  # no reason to leave out the others
                codes.add(exit_code(error))
                continue
            found.append(display.status_json(one))
            if not json:
                display.print_status(table_console(), one)
            if one.health.verdict not in (Verdict.OK, Verdict.UNKNOWN):
                codes.add(ExitCode.FAILED)
            elif one.health.unjudged:
                codes.add(ExitCode.UNREACHABLE)
        if json:
            print_json({"groups": found})
        worst = (ExitCode.FAILED, ExitCode.USAGE, ExitCode.UNREACHABLE, ExitCode.DONE)
        raise typer.Exit(next(code for code in worst if code in codes))


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
    json: AsJson = False,
) -> None:
    """Clean an offsets table up: a checkpoint of its log, and no files that no kept version needs.

    Queries go on meanwhile. There is nothing to compact: each commit replaces
    a group's one file. What grows is the history.
    """
    with clear_errors("offsets maintain"):
        table = table_at(offsets_table, storage_option)
        if not table.exists():
            raise no_table(offsets_table)
        deleted = table.maintain(retention_hours)
        if json:
            print_json({"filesDeleted": deleted})
        else:
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
    topic: _Topics = None,
    topic_pattern: _Pattern = None,
    master_servers: _Masters = None,
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

    earliest, latest and times need --master-servers, because the brokers
    answer them. batch:N is the group's position after its commit N, see
    `history`. If brokers no longer hold a position, the nearest one that they
    hold is used, with a warning.

    A live group is refused: one that recorded something in the last 30
    seconds, or, with --master-servers, one that has consumers at the master.
    --force resets it anyway, and a running query stops at its next commit
    with [RUN_SUPERSEDED].

    Example:

      tubeclient offsets reset --offsets-table /lake/_offsets \\
        --consumer-group clicks_etl --to 2026-11-21T10:31Z \\
        --master-servers 10.0.0.1:8715 --dry-run
    """
    with clear_errors("offsets reset"):
        from offsets_store import OffsetsTableError
        from offsets_store.rows import RESET
        from tubeclient._version import __version__
        from tubeclient_cli.offsets import display as display
        from tubeclient_cli.offsets.brokers import brokers_of
        from tubeclient_cli.offsets.reset import Reset, choose_key, parse_target

        check_can_ask(as_json=json, yes=yes, dry_run=dry_run)
        target = parse_target(to, time_zone)
        table = table_at(offsets_table, storage_option, client_version=f"{__version__} {RESET}")
        found = progress_in(table, consumer_group)
        if not (found or topic or topic_pattern or table.exists()):
            raise nothing_kept(table, offsets_table, consumer_group)
        key = choose_key(found, consumer_group, topic or [], topic_pattern)
        with brokers_of(master_servers, key, option) as brokers:
            work = Reset(table, key, brokers)
            plan = work.plan(target)
            console = table_console()
            if not json:
                display.print_plan(console, plan, dry_run=dry_run)
            changed = False
            refusal: Exception | None = None
            try:
                run = work.take_over(plan, force=force)
            except (ConfigurationError, OffsetsTableError) as error:
                if not dry_run:
                    raise
                refusal = error
            if plan.changes and not dry_run:
                ask("Reset the group?", yes=yes)
                changed = work.apply(plan, run, force=force)
            if json:
                print_json(display.plan_json(plan, to, changed, refusal))
            elif refusal is not None:
                typer.echo(f"it would be refused: {refusal}")
            elif plan.changes:
                typer.echo(
                    f"the group {'was' if changed else 'would be'} reset; a query with a checkpoint continues from"
                    " that, and `tubeclient ingest` from its target, not from the table"
                )
