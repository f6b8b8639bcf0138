"""Tables at the width of a terminal."""

from __future__ import annotations

from rich.console import Console

from tubeclient_cli.common.tables import number, table_of


def drawn(width: int, *rows: tuple[str, str]) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as shown:
        console.print(table_of(("partition", "why"), rows, keys=("partition",)))
    return [line.rstrip() for line in shown.get().splitlines()]


def test_keys_are_not_broken_over_lines_at_80_columns() -> None:
    key = "12:orders_of_all_the_shops_of_the_whole_group:10003"
    lines = drawn(80, (key, "the node has it " * 10))
    assert sum(key in line for line in lines) == 1
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).replace(key, "").split()).endswith("the node has it")


def test_nothing_is_taken_for_markup_and_numbers_are_readable() -> None:
    assert "[bold]x[/bold]" in drawn(80, ("[bold]x[/bold]", ""))[-1]
    assert (number(12_345), number(None)) == ("12,345", "unknown")
