"""`tubeclient offsets`: show the positions of groups in an offsets table, and move them.

The commands as typer shows them. Imports nothing heavy until a command runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, Masters, no_progress, offsets_table_at
from tubeclient_cli.common.moves import DryRun, Yes, ask, check_can_ask, print_moves
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    FurtherOptions,
    StorageOptions,
    TimeZone,
    clear_errors,
    named_group,
    print_json,
    print_stderr,
    table_console,
)

__all__ = ["offsets_app"]

offsets_app = typer.Typer(
    name="offsets",
    help="Show how far groups have read by an offsets table, and move them there. For the positions that brokers "
    "keep, use `tubeclient groups`.",
    no_args_is_help=True,
)

_Table = Annotated[str, typer.Option(metavar="PATH", help="The Delta table that keeps the groups' positions.")]
_Group = Annotated[str, typer.Option(metavar="NAME", help="The consumer group.", parser=named_group)]
_Topics = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A topic of the set to move; may be given several times. Needed if the group has several sets.",
    ),
]
_Pattern = Annotated[
    str | None, typer.Option(metavar="REGEX", help="Instead of --topic, for a group that reads by subscribePattern.")
]
_Masters = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        envvar=MASTERS_VARIABLE,
        help="The cluster's masters, to ask the brokers too.",
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
        from tubeclient_cli.common.tables import print_rows, time_text

        table = offsets_table_at(offsets_table, storage_option)
        rows = []
        for name in table.groups():
            try:
                rows += [
                    {
                        "consumerGroup": name,
                        "topicSet": progress.group.topic_set,
                        "partitions": len(progress.partitions),
                        "updatedAt": time_text(progress.updated_at),
                        "messagesBehindAtMost": progress.rows_behind,
                    }
                    for progress in table.all_latest(name)
                ]
            except (ConfigurationError, SchemaMismatch, ValueError) as error:
                print_stderr(f"group {name!r} is left out: {error}")
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
        int | None, typer.Option(metavar="N", min=0, help="Exit with 1 if more than this many rows are left to read.")
    ] = None,
    max_silence: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Exit with 1 if rows wait and the last commit is older than this, such as 30m."
        ),
    ] = None,
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Show a group's position in each partition, who reads it, and how many messages it is behind.

    With --master-servers, the numbers are current; otherwise they are as of the
    group's last commit. A store's partitions share its index, so a partition's
    number of messages is an upper bound. A store counts by its partition that
    is furthest behind.

    Probes and alerts can use --max-lag and --max-silence, which check the
    topics of the group's newest run. A query does not commit while there is
    nothing to read, so choose a silence longer than the topic's quiet hours.

    Examples:

      tubeclient offsets show --offsets-table /lake/_offsets \\
        --consumer-group clicks_etl

      tubeclient offsets show --offsets-table /lake/_offsets \\
        --consumer-group clicks_etl --master-servers 10.0.0.1:8715 \\
        --max-silence 30m
    """
    with clear_errors("offsets show"):
        from spark_source.options.parsers import duration_ms
        from tubeclient_cli.offsets.lag import brokers_of, print_progress, progress_json

        if max_silence is not None and master_servers is None:
            raise ConfigurationError("--max-silence asks the brokers whether messages wait; add --master-servers")
        try:
            silence = None if max_silence is None else timedelta(milliseconds=duration_ms(1)(max_silence))
        except ValueError as error:
            raise ConfigurationError(f"--max-silence {error}") from None
        table = offsets_table_at(offsets_table, storage_option)
        if option and master_servers is None:
            raise ConfigurationError("--option is for the connection to the cluster; add --master-servers")
        found = table.all_latest(consumer_group)
        sets, faults = [], []
        for progress in found:
            with contextlib.ExitStack() as stack:
                brokers = master_servers and stack.enter_context(brokers_of(master_servers, progress.group, option))
                sets.append(progress_json(progress, brokers or None))
            if not json:
                print_progress(table_console(), consumer_group, sets[-1])
            if progress.run_epoch == max(latest.run_epoch for latest in found):
                faults = _faults(sets[-1], max_lag, silence, datetime.now(UTC) - progress.updated_at)
        if not sets:
            raise no_progress(table, consumer_group)
        if json:
            print_json({"consumerGroup": consumer_group, "topicSets": sets})
        for fault in faults:
            print_stderr(fault)
        if faults:
            raise typer.Exit(ExitCode.FAILED)


def _faults(
    shown: Mapping[str, Any], max_lag: int | None, max_silence: timedelta | None, silent: timedelta
) -> list[str]:
    """Which bounds the progress of `progress_json` exceeds. A position beyond its end exceeds each."""
    if max_lag is None and max_silence is None:
        return []
    behind, topics = shown["messagesBehindAtMost"], shown["topicSet"]
    if behind is None:
        raise ConfigurationError("--max-lag needs the ends of all partitions; add --master-servers")
    found = [f"{topics}: a position is beyond its end"] if shown["beyondEnd"] else []
    if max_lag is not None and behind > max_lag:
        found.append(f"{topics}: {behind:,} messages behind, more than --max-lag {max_lag:,}")
    if max_silence is not None and behind and silent > max_silence:
        found.append(f"{topics}: no commit for {silent.total_seconds():,.0f} s while messages wait")
    return found


@offsets_app.command()
def reset(
    offsets_table: _Table,
    consumer_group: _Group,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="earliest, latest, a time such as 2026-11-21T10:31Z, an offset, or JSON as in startingOffsets, "
            '{"1:clicks:0": 2800}: other partitions do not move.',
        ),
    ],
    master_servers: Masters,
    topic: _Topics = None,
    topic_pattern: _Pattern = None,
    option: FurtherOptions = None,
    time_zone: TimeZone = "UTC",
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Reset the group even if it is live.")] = False,
    yes: Yes = False,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Move a group to other positions in its topics.

    The new positions apply to anything that starts from the table: a query with
    a NEW checkpoint and startingOffsets=group, or a consumer that reads its
    position here. If a query's first batch did not complete, the table drops
    its initial offsets. A query with a checkpoint continues from its checkpoint
    and sets the table back; `tubeclient ingest` continues from its target.

    If the brokers no longer hold a position, the command uses the nearest one
    that they hold, and warns.

    The command refuses a live group: one that wrote to the table in the last 30
    seconds, or has consumers at the master. --force resets it anyway, and a
    running query stops at its next commit with [RUN_SUPERSEDED].

    Example:

      tubeclient offsets reset --offsets-table /lake/_offsets \\
        --consumer-group clicks_etl --to 2026-11-21T10:31Z \\
        --master-servers 10.0.0.1:8715 --dry-run
    """
    with clear_errors("offsets reset"):
        from offsets_store.rows import RESET
        from tubeclient._version import __version__
        from tubeclient_cli.offsets.lag import brokers_of
        from tubeclient_cli.offsets.reset import apply, choose_key, plan_of

        check_can_ask(as_json=json, yes=yes, dry_run=dry_run)
        is_named = bool(topic or topic_pattern)
        table = offsets_table_at(
            offsets_table, storage_option, may_be_new=is_named, client_version=f"{__version__} {RESET}"
        )
        found = table.all_latest(consumer_group)
        if not (found or is_named):
            raise no_progress(table, consumer_group)
        key = choose_key(found, consumer_group, topic or [], topic_pattern)
        with brokers_of(master_servers, key, option) as brokers:
            plan = plan_of(table, key, brokers, to, time_zone)
            if not json:
                print_moves(str(key), plan.to.moves, plan.warnings, dry_run=dry_run)
            changed = plan.changes and not dry_run
            if changed:
                apply(plan, table, key, brokers, lambda: ask("Reset the group?", yes=yes), force=force)
        if json:
            moves = [move.row() for move in plan.to.moves]
            result = {"consumerGroup": key.consumer_group, "topicSet": key.topic_set, "to": to, "changed": changed}
            print_json({**result, "moves": moves, "warnings": list(plan.warnings)})
        elif plan.changes:
            typer.echo(
                f"the group {'was' if changed else 'would be'} reset; a query with a checkpoint continues from its "
                "checkpoint, and `tubeclient ingest` from its target, not from this table"
            )
