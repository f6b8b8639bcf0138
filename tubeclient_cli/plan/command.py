"""`tubeclient plan`: the command as typer shows it. Imports nothing heavy until it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_NODES
from tubeclient_cli.common.cluster import Masters, checked_web, settings_of
from tubeclient_cli.common.pairs import further_options
from tubeclient_cli.common.terminal import AsJson, FurtherOptions, clear_errors, print_json, table_console

if TYPE_CHECKING:
    from tubeclient.assignment import Hints

__all__ = ["plan"]

_FLAGS = {"sourcecount": "--source-count", "assignmentstrategy": "--strategy", "assignmenthints": "--hints"}


def _strategies() -> list[str]:
    """What a shell completes."""
    from tubeclient.assignment import STRATEGIES

    return sorted(STRATEGIES)


def plan(
    master_servers: Masters,
    topic: Annotated[list[str], typer.Option(metavar="NAME", help="A topic to read; may be given several times.")],
    source_count: Annotated[int, typer.Option(metavar="N", min=1, max=MAX_NODES, help="How many nodes the group has.")],
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this strategy; may be given several times. Default: all there are.",
            autocompletion=_strategies,
        ),
    ] = None,
    hints: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='As the source\'s assignmentHints: {"rooms": {"1": "east", "2": "west"}}.'),
    ] = None,
    consumer_group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Count the rows that this group has not read yet.")
    ] = None,
    option: FurtherOptions = None,
    json: AsJson = False,
) -> None:
    """Show which node would read which partitions, by each strategy. Changes nothing.

    A broker that is only down keeps its partitions: nothing moves.

    Strategies that leave partitions where they were start with modulo's
    assignment. Those that balance rows need --consumer-group, whose position
    the brokers give.

    Example:

      tubeclient plan --master-servers 10.0.0.1:8715 --topic clicks \\
        --source-count 4
    """
    with clear_errors("plan"):
        from tubeclient.admin import Admin
        from tubeclient.names import topic_names
        from tubeclient_cli.plan.preview import lag_of, partitions_of, plan_json, plans, print_plans

        topic = topic_names(topic)
        admin = Admin(checked_web(settings_of(master_servers, further_options(option, _FLAGS))))
        partitions = partitions_of(admin, topic)
        lag = None if consumer_group is None else lag_of(admin, consumer_group, partitions)
        made, refused = plans(strategy or [], partitions, source_count, replace(_hints(hints), lag=lag))
        if json:
            print_json(plan_json(made, refused, lag))
        else:
            print_plans(table_console(), made, refused, partitions, lag)


def _hints(text: str | None) -> Hints:
    from spark_source.options.node_options import assignment_hints
    from tubeclient.assignment import NO_HINTS

    if text is None:
        return NO_HINTS
    try:
        return assignment_hints(text)
    except ValueError as error:
        raise ConfigurationError(f"--hints {error}") from None
