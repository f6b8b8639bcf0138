"""Tables: what users copy is whole at any width, and commands no terminal."""

from __future__ import annotations

import sys
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tubeclient.keys import PartitionKey
from tubeclient_cli.common.tables import number, print_table, spans
from tubeclient_cli.common.terminal import table_console

COLUMNS = ("partition", "next offset", "why")
FOREIGN = [":one:", "[/x]", "[bold]good", "ev\x1b]0;owned\x07il", "a\x1b[2J\nb", "\u202egnp.exe"]
"""Names of topics and groups that a terminal, or Rich, would obey."""


def printed(rows: list[tuple[str, ...]], width: int) -> str:
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    print_table(console, COLUMNS, rows, keys=COLUMNS[:1], right=COLUMNS[1:2])
    return out.getvalue()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9).map(lambda number: f"1:clicks:{number}"),
            st.integers(0, 10**12).map("{:,}".format),
            st.text("abcdefgh ", max_size=30),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(20, 150),
)
def test_keys_and_numbers_are_whole_at_any_width(rows: list[tuple[str, ...]], width: int) -> None:
    text = printed(rows, width)
    for key, offset, why in rows:
        assert any(key in line and offset in line for line in text.splitlines())
        assert width < 80 or why.strip() in text
    if width >= 60:
        assert max(map(len, text.splitlines())) <= width


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
    first, _, _, row = out.getvalue().splitlines()
    shown = ascii(name)[1:-1].replace("\\\\", "\\")
    assert first.rstrip() == f"group {shown}"
    assert row.split() == [*shown.split(), "1"]
    assert row.isprintable()


def test_numbers_are_readable_and_neighbours_are_one_span() -> None:
    assert (number(12_345), number(None)) == ("12,345", "unknown")
    keys = [PartitionKey(1, "a", 0), PartitionKey(1, "a", 1), PartitionKey(1, "b", 2), PartitionKey(2, "b", 3)]
    assert spans([*keys, PartitionKey(2, "b", 5)]) == ["1:a:0-1", "1:b:2", "2:b:3", "2:b:5"]
    assert spans([]) == []
