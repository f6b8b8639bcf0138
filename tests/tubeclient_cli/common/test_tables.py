"""Tables: what users copy is whole at any width."""

from __future__ import annotations

import sys
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tubeclient_cli.common.tables import number, print_table, table_of
from tubeclient_cli.common.terminal import table_console

COLUMNS = ("partition", "next offset", "rows behind, at most", "by", "why")


def printed(rows: list[tuple[str, ...]], width: int, *, terminal: bool = True) -> str:
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False)
    right = COLUMNS[1:3]
    print_table(console, COLUMNS, rows, keys=COLUMNS[:1], right=right, less=("why", "by", "rows behind, at most"))
    return out.getvalue()


words = st.text("abcdefgh ", max_size=30)
keys = st.integers(0, 10**9).map(lambda number: f"1:clicks:{number}")
numbers = st.integers(0, 10**12).map("{:,}".format)


@given(st.lists(st.tuples(keys, numbers, numbers, words, words), min_size=1, max_size=3), st.integers(20, 150))
def test_keys_and_numbers_are_whole_at_any_width(rows: list[tuple[str, ...]], width: int) -> None:
    text = printed(rows, width)
    for key, offset, behind, *_ in rows:
        assert key in text
        assert offset in text
        assert behind in text or "left out" in text
    if width >= 42:  # wide enough for the first two columns
        table = [line for line in text.splitlines() if not line.startswith("left out")]
        assert max(map(len, table)) <= width


@given(st.lists(st.tuples(keys, numbers, numbers, words, words), max_size=3), st.integers(20, 150))
def test_without_a_terminal_nothing_is_left_out_or_folded(rows: list[tuple[str, ...]], width: int) -> None:
    text = printed(rows, width, terminal=False)
    assert text.isascii()
    [head, *lines] = text.splitlines()
    assert head.split() == " ".join(COLUMNS).split()
    assert [line.split() for line in lines] == [" ".join(row).split() for row in rows]


def test_a_table_that_fits_has_its_headings_on_one_line() -> None:
    text = printed([("1:clicks:0", "28", "1", "0", "modulo")], 80)
    assert text.splitlines()[0].rstrip() == "partition    next offset   rows behind, at most   by   why"
    assert "left out" not in text


def test_what_is_left_out_is_said_and_texts_fold() -> None:
    row = ("1:clicks:10000", "3,456,790,092", "123,456,789", "0", "modulo; backlog taken over")
    assert "left out" not in printed([row], 70)
    assert "left out, as the terminal is too narrow: why; --json has them" in printed([row], 56)
    assert "left out, as the terminal is too narrow: why, by, rows behind, at most;" in printed([row], 40)


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


FOREIGN = [":one:", "[/x]", "[bold]good", "ev\x1b]0;owned\x07il", "a\x1b[2J\nb", "\u202egnp.exe"]
"""Names of topics and groups that a terminal, or Rich, would obey."""


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("terminal", [True, False])
def test_a_name_is_shown_as_it_is_and_commands_nothing(
    name: str, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "dumb")  # no colours
    out.isatty = lambda: terminal  # type: ignore[method-assign]
    console = table_console()
    console.print(f"group {name}", soft_wrap=True)
    print_table(console, ("group", "topics"), [(name, "1")])
    console.print(table_of(("group", "topics"), [(name, "1")]))
    lines = out.getvalue().splitlines()
    shown = ascii(name)[1:-1].replace("\\\\", "\\")
    assert lines[0].rstrip() == f"group {shown}"
    assert sum(line.startswith(shown) and line.rstrip().endswith(" 1") for line in lines) == 2
    assert all(line.isprintable() for line in lines)
    assert len(lines) == (7 if terminal else 6)
