"""Tables: what users copy is whole at any width, and commands no terminal."""

from __future__ import annotations

import sys
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tubeclient.keys import PartitionKey
from tubeclient_cli.common.tables import print_rows, spans
from tubeclient_cli.common.terminal import table_console

FOREIGN = [":one:", "[/x]", "[bold]good", "ev\x1b]0;owned\x07il", "a\x1b[2J\nb", "\u202egnp.exe"]
"""Names of topics and groups that a terminal, or Rich, would obey."""


@given(st.lists(st.tuples(st.integers(0, 10**9), st.text("abcdefgh ", max_size=30)), min_size=1, max_size=3))
def test_keys_and_numbers_are_whole_at_any_width(rows: list[tuple[int, str]]) -> None:
    for width in (20, 60, 100):
        out = StringIO()
        console = Console(file=out, width=width, color_system=None, highlight=False)
        print_rows(console, [{"partition": f"1:clicks:{one}", "nextOffset": one, "why": why} for one, why in rows])
        lines = out.getvalue().splitlines()
        assert all(any(f"1:clicks:{one} " in line and f" {one}" in line for line in lines) for one, _ in rows)
        assert width < 100 or max(map(len, lines)) <= width


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
    print_rows(console, [{"group": name, "topics": ["a", "b"], "tls": True, "node": None}])
    first, _, _, row = out.getvalue().splitlines()
    shown = ascii(name)[1:-1].replace("\\\\", "\\")
    assert first.rstrip() == f"group {shown}"
    assert row.split() == [*shown.split(), "a,", "b", "yes", "-"]
    assert row.isprintable()


def test_neighbours_are_one_span() -> None:
    keys = [PartitionKey(1, "a", 0), PartitionKey(1, "a", 1), PartitionKey(1, "b", 2), PartitionKey(2, "b", 3)]
    assert spans([*keys, PartitionKey(2, "b", 5)]) == ["1:a:0-1", "1:b:2", "2:b:3", "2:b:5"]
    assert spans([]) == []
