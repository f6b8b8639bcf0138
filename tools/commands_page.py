"""The text of docs/commands.md: what each command takes, from its own help."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import typer

from tubeclient_cli.app import app
from tubeclient_cli.common.terminal import EXIT_CODES

_SEVERAL: Final = 3
"""So many commands with an option make it one of several commands."""
_Row = tuple[str, str]
"""A name, and what it means."""
_HEAD = """\
# Commands

Generated from the help of the commands by `make docs`. [Commands and jobs](command-line.md) says what they share and
shows each in a few lines. `tubeclient COMMAND --help` prints what is here for the release that you have.

"""


def commands_page() -> str:
    """All commands, each with its arguments and options, in the order of `tubeclient --help`."""
    leaves = list(_leaves(_context(typer.main.get_command(app), "tubeclient", None)))
    counts = Counter(row for context in leaves for row in _rows(context))
    shared = [row for row, count in counts.items() if count >= _SEVERAL]
    pages = [_section(context, shared) for context in leaves]
    common = f"## Options of several commands\n\n{_table(shared)}\n\n"
    return _HEAD + common + "\n\n".join(pages) + "\n\n## Exit codes\n\n" + _exit_codes() + "\n"


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.make_context(name, [], parent=parent, resilient_parsing=True)


def _leaves(context: Any) -> Iterator[Any]:
    for name in context.command.list_commands(context):
        found = _context(context.command.get_command(context, name), name, context)
        if hasattr(found.command, "list_commands"):
            yield from _leaves(found)
        else:
            yield found


def _section(context: Any, shared: Sequence[_Row]) -> str:
    arguments = [_argument(param) for param in context.command.params if _is_argument(param)]
    usage = " ".join([context.command_path, "[OPTIONS]", *arguments])
    rows = _rows(context)
    own, others = [row for row in rows if row not in shared], [row[0] for row in rows if row in shared]
    parts = [f"## {context.command_path}", f"`{usage}`", *_paragraphs(context.command.help)]
    if own:
        parts.append(_table(own))
    if others:
        parts.append(f"Also: {', '.join(f'`{name}`' for name in others)}.")
    return "\n\n".join(parts)


def _rows(context: Any) -> list[_Row]:
    shown = [param for param in context.command.get_params(context) if "--help" not in param.opts]
    return [_row(context, param) for param in shown if param.get_help_record(context)]


def _table(rows: Iterable[_Row]) -> str:
    return "| | |\n|---|---|\n" + "\n".join(f"| `{name}` | {text} |" for name, text in rows)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _argument(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _row(context: Any, param: Any) -> _Row:
    name, text = param.get_help_record(context)
    shown = (_argument(param) if _is_argument(param) else name).replace("|", r"\|")
    return shown, _cell(text)


def _paragraphs(text: str) -> Iterator[str]:
    """Markdown of a command's help. Indented paragraphs stay as they are: examples and tables."""
    for paragraph in text.split("\n\n"):
        as_it_is = paragraph.removeprefix("\b\n")
        if as_it_is == paragraph:
            yield paragraph
        else:
            yield textwrap.indent(textwrap.dedent(as_it_is), "    ")


def _cell(text: str) -> str:
    """Text for a cell of a table: without what Markdown or HTML would take for its own."""
    outside = " ".join(text.split()).split("`")
    outside[::2] = [piece.replace("<", "&lt;").replace("*", r"\*") for piece in outside[::2]]
    return "`".join(outside).replace("|", r"\|")


def _exit_codes() -> str:
    rows = [line.split(maxsplit=1) for line in EXIT_CODES.splitlines() if line.startswith("  ")]
    return "| exit code | meaning |\n|---|---|\n" + "\n".join(f"| {code} | {meaning} |" for code, meaning in rows)
