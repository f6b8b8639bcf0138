"""Output of `tubeclient plan`: a table with a bar for each node; or JSON for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tubeclient.assignment import balance
from tubeclient.keys import PartitionKey
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import spans
from tubeclient_cli.plan.preview import StrategyPlan

__all__ = ["plan_json", "print_plans"]

_BAR_CELLS = 30
_SHOWN_NODES = 24
_SHOWN_SPANS = 6


def print_plans(
    console: Console,
    made: Sequence[StrategyPlan],
    refused: Mapping[str, str],
    partitions: Sequence[PartitionKey],
    lag: Mapping[PartitionKey, int] | None,
) -> None:
    """All plans, one below the other, and a line for each strategy that is unavailable."""
    brokers = {key.broker_id for key in partitions}
    nodes = counted(len(made[0].by_node), "node") if made else "no node"
    rows = "" if lag is None else f", {sum(lag.values()):,} rows to read at most"
    where = f"{counted(len(partitions), 'partition')} on {counted(len(brokers), 'broker')}"
    console.print(f"{where} to {nodes}{rows}", soft_wrap=True)
    for one in made:
        _print_plan(console, one, lag)
    for strategy, reason in refused.items():
        console.print()
        console.print(
            f"{strategy}: left out, {reason.removeprefix(f'assignment strategy {strategy} ')}", soft_wrap=True
        )


def _print_plan(console: Console, one: StrategyPlan, lag: Mapping[PartitionKey, int] | None) -> None:
    console.print()
    console.print(one.strategy, style="bold")
    table = Table(box=None, pad_edge=False, header_style="")
    for name, side in (("node", "right"), ("partitions", "right"), ("", "left"), ("rows", "right"), ("which", "left")):
        if name != "rows" or lag is not None:
            table.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    most = max(map(len, one.by_node)) or 1
    for node, keys in enumerate(one.by_node[:_SHOWN_NODES]):
        bar = ("#" if console.options.ascii_only else "█") * round(_BAR_CELLS * len(keys) / most)
        rows = [] if lag is None else [f"{sum(lag.get(key, 0) for key in keys):,}"]
        table.add_row(str(node), f"{len(keys):,}", bar, *rows, _which(keys))
    console.print(table)
    if len(one.by_node) > _SHOWN_NODES:
        console.print(f"and {len(one.by_node) - _SHOWN_NODES} more nodes; --json shows all")
    sizes = balance(one.by_node)
    even = f"{sizes.smallest} to {sizes.largest} partitions per node, at most {sizes.overload:.2f} times the mean"
    if lag is not None:
        even += f"; in rows {balance(one.by_node, lag).overload:.2f} times"
    console.print(even, soft_wrap=True)


def _which(keys: Sequence[PartitionKey]) -> str:
    shown = spans(keys)
    more = len(shown) - _SHOWN_SPANS
    return ", ".join(shown[:_SHOWN_SPANS]) + (f" and {more} more" if more > 0 else "")


def plan_json(
    made: Sequence[StrategyPlan], refused: Mapping[str, str], lag: Mapping[PartitionKey, int] | None
) -> dict[str, Any]:
    """The plans as one JSON object."""
    return {
        "strategies": {
            one.strategy: {
                "nodes": [
                    {
                        "node": node,
                        "partitions": [str(key) for key in keys],
                        "rows": None if lag is None else sum(lag.get(key, 0) for key in keys),
                    }
                    for node, keys in enumerate(one.by_node)
                ],
            }
            for one in made
        },
        "leftOut": dict(refused),
    }
