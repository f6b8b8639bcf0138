"""Where to read from, or move to, as users write it: earliest, latest, a time, an offset, or JSON; what would move, and
the questions before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tubeclient.errors import ConfigurationError, NoMessageTime
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient_cli.common.terminal import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.keys import StoreBounds, StoreKey
    from tubeclient.metadata import ClusterView
    from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["DryRun", "PositionMove", "Yes", "ask", "check_can_ask", "held", "offsets_of", "parse_place", "print_moves"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would move, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def parse_place(text: str, where: str, zone: tzinfo, others: str = "") -> OffsetSpec:
    """`where` is the option's name, `zone` that of times without one, `others` what else the option takes.
    ConfigurationError."""
    from spark_source.offsets.offset_spec import Moment, OffsetSpec
    from spark_source.options.parsers import moment_ms
    from tubeclient.keys import checked_offset, is_plain_number

    bare = text.strip()
    if bare.startswith("{") or bare.lower() in ("earliest", "latest"):
        return OffsetSpec.parse(text, where)
    if is_plain_number(bare):
        return OffsetSpec(where, checked_offset(int(bare), where))
    timestamp_ms = moment_ms(text, where, zone)
    if timestamp_ms is None:
        raise ConfigurationError(
            f"{where} is {text!r}; write earliest, latest, a time as 2026-11-21T10:31Z, {others}an offset, or JSON "
            'from partition keys to offsets, as in {"1:clicks:0": 2800}'
        )
    return OffsetSpec(where, Moment(timestamp_ms))


def offsets_of(
    spec: OffsetSpec,
    partitions: Collection[PartitionKey],
    lookup: OffsetLookup,
    view: ClusterView,
    bounds: Mapping[StoreKey, StoreBounds],
    time_zone: str,
    *,
    before: Mapping[PartitionKey, int] | None = None,
) -> Mapping[PartitionKey, int]:
    """The offsets of those of `partitions` that `spec` means; those that are named may lie outside `bounds`.

    `before` has the group's positions. Raises ConfigurationError and TubeError.
    """
    from spark_source.offsets.offset_spec import resolve, without_times

    if unknown := spec.unknown(partitions):
        raise ConfigurationError(
            f"{spec.option} names partition {unknown[0]}, which there is not", condition="PARTITION_NOT_FOUND"
        )
    meant = sorted(partitions) if spec.default is not None else sorted(dict(spec.named))
    try:
        spec = without_times(spec, meant, lookup, view, bounds, time_zone)
    except NoMessageTime as error:
        raise ConfigurationError(
            f"{spec.option} uses the times that producers write on messages, but {error}. Name earliest, latest, or an "
            f'offset by partition: {{"{error.partition}": 2800}}'
        ) from error
    return resolve(spec, meant, bounds, lambda: before or {})


def held(positions: Mapping[PartitionKey, int], bounds: Mapping[StoreKey, StoreBounds]) -> dict[PartitionKey, int]:
    """The nearest offsets that the brokers hold."""
    return {key: bounds[key.store].nearest(at) for key, at in positions.items()}


class PositionMove(NamedTuple):
    """One partition; index offsets, None if there is no position."""

    partition: PartitionKey
    start: int | None
    end: int | None

    def row(self) -> dict[str, Any]:
        """For JSON and tables. `rowsAtMost` lie between, less than 0 for a move back; None if one side is unknown."""
        known = None if self.start is None or self.end is None else (self.end - self.start) // INDEX_ENTRY_BYTES
        return {"partition": str(self.partition), "from": self.start, "to": self.end, "rowsAtMost": known}


def check_can_ask(*, as_json: bool, yes: bool, dry_run: bool) -> None:
    """ConfigurationError if there would be a question beside JSON."""
    if as_json and not (dry_run or yes):
        raise ConfigurationError("--json does not prompt; add --yes to move the group, or --dry-run")


def ask(question: str, *, yes: bool) -> None:
    """End the command with exit code 1 unless the user agrees; `yes` is an answer given before."""
    if not yes and not typer.confirm(question, err=True):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(ExitCode.FAILED)


def print_moves(console: Console, group: str, moves: Iterable[PositionMove], *, dry_run: bool) -> None:
    """The moves as a table; a line if nothing moves."""
    from tubeclient_cli.common.tables import print_rows

    rows = [move.row() for move in moves]
    if not rows:
        console.print(f"{group} has these positions already, nothing moves", soft_wrap=True)
        return
    console.print(f"{group}{', a dry run' if dry_run else ''}; rows are skipped, or read again if below 0:")
    print_rows(console, rows)
