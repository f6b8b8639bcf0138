"""`tubeclient offsets`: show the positions of groups in an offsets table, and move them.

The commands as typer shows them. Imports nothing heavy until a command runs.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.asking import DryRun, Yes, ask, check_can_ask
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, Masters
from tubeclient_cli.common.offsets_tables import listed, nothing_kept, progress_in, table_at
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
from tubeclient_cli.offsets.opening import brokers_of

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
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Show the latest progress of a group, partition by partition.

    Messages behind are as of the group's last commit; `lag` asks the brokers.
    """
    with clear_errors("offsets show"):
        from tubeclient_cli.offsets import display as display

        table = table_at(offsets_table, storage_option)
        found = progress_in(table, consumer_group)
        if not found:
            raise nothing_kept(table, offsets_table, consumer_group)
        if json:
            print_json(display.progress_json(consumer_group, found))
        else:
            display.print_progress(table_console(), found)


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
def lag(
    offsets_table: _Table,
    consumer_group: _Group,
    master_servers: _Masters = None,
    max_lag: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Exit with 1 if more rows are left to read than this.")
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Exit with 1 if the oldest unread message is older than this, such as 30m; needs --master-servers.",
        ),
    ] = None,
    time_zone: TimeZone = "UTC",
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Show how many rows a group is behind: by partition, by store, in all.

    With --master-servers as of now, otherwise as of the group's last commit. A
    store's partitions share its index, so the rows of one partition are an
    upper bound. A store counts by its partition that is furthest behind.

    Probes and alerts can use --max-lag and --max-age; each topic set that the
    group reads counts by itself. `status` needs no bound.
    """
    with clear_errors("offsets lag"):
        from spark_source.options.moment import duration_ms
        from tubeclient_cli.offsets import display as display
        from tubeclient_cli.offsets.lag import exceeded, lag_at_commit, lag_now, oldest_unread

        age = None if max_age is None else timedelta(milliseconds=duration_ms("--max-age", max_age))
        if age is not None and master_servers is None:
            raise ConfigurationError("--max-age asks the brokers for their messages; add --master-servers")
        table = table_at(offsets_table, storage_option)
        found = progress_in(table, consumer_group)
        if not found:
            raise nothing_kept(table, offsets_table, consumer_group)
        lags = []
        for progress in found:
            with brokers_of(master_servers, progress.group, option) as brokers:
                one = lag_at_commit(progress) if brokers is None else lag_now(progress, brokers)
                if age is not None and brokers is not None:
                    one = replace(one, oldest=oldest_unread(one, brokers, time_zone))
                lags.append(one)
        now = datetime.now(UTC)
        above = [(one.topic_set, why) for one in lags if (why := exceeded(one, max_lag, age, now)) is not None]
        if json:
            print_json(display.lag_json(consumer_group, lags))
        else:
            display.print_lag(table_console(), lags)
        for topic_set, why in above:
            tell(f"{topic_set}: {why}")
        if above:
            raise typer.Exit(ExitCode.FAILED)


@offsets_app.command()
def status(
    offsets_table: _Table,
    consumer_group: _Group,
    master_servers: Masters,
    window: Annotated[int, typer.Option(metavar="N", min=2, help="How many of the last commits to judge by.")] = 10,
    max_silence: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long the group may leave rows unread without a commit, such as 30m (default: as long as the "
            "last N commits took without their longest pause, at least 5m).",
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
    some partitions cannot be judged.
    """
    with clear_errors("offsets status"):
        from offsets_store.health import Verdict
        from spark_source.options.moment import duration_ms
        from tubeclient_cli.offsets import display as display
        from tubeclient_cli.offsets.status import group_status

        silence = None if max_silence is None else timedelta(milliseconds=duration_ms("--max-silence", max_silence))
        table = table_at(offsets_table, storage_option)
        past = table.past(consumer_group, window)
        if past is None:
            raise nothing_kept(table, offsets_table, consumer_group)
        with brokers_of(master_servers, past.group, option) as brokers:
            assert brokers is not None
            now = datetime.now(UTC)
            found = group_status(past, brokers, now, window=window, max_silence=silence, time_zone=time_zone)
        if json:
            print_json(display.status_json(found))
        else:
            display.print_status(table_console(), found)
        if found.health.verdict not in (Verdict.OK, Verdict.UNKNOWN):
            raise typer.Exit(ExitCode.FAILED)
        if found.health.unjudged:
            raise typer.Exit(ExitCode.UNREACHABLE)


@offsets_app.command()
def reset(
    offsets_table: _Table,
    consumer_group: _Group,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="earliest, latest, a time such as 2026-11-21T10:31Z, batch:N, group:NAME, an offset, or JSON as in "
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
    `history`. group:NAME is another group's position, in this table or, with
    --master-servers, on the brokers. If brokers no longer hold a position,
    the nearest one that they hold is used, with a warning.

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
        from tubeclient_cli.offsets.reset import Reset
        from tubeclient_cli.offsets.target import choose_key, parse_target

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
            with telling_done("offsets reset", "the group was reset" if changed else None):
                if json:
                    print_json(display.plan_json(plan, to, changed, refusal))
                elif refusal is not None:
                    typer.echo(f"it would be refused: {refusal}")
                elif plan.changes:
                    typer.echo(
                        f"the group {'was' if changed else 'would be'} reset; a query with a checkpoint continues from"
                        " that, and `tubeclient ingest` from its target, not from the table"
                    )
