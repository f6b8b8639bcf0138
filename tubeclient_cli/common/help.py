"""The help of all commands: plain text, as wide as the terminal, with the exit codes at its end.

Without Rich: a terminal, a pipe and a bug report show the same, and help starts in half the time.
"""

from __future__ import annotations

import inspect

import typer

__all__ = ["EXIT_CODES", "plain_help"]

EXIT_CODES = """\b
Exit codes:
  0  done
  1  the work failed, or the answer is that something is not well
  2  wrong usage or settings
  3  the cluster, a table or Spark cannot be reached
"""
"""The end of each help."""


def plain_help(app: typer.Typer) -> None:
    """Give all commands of `app`, and of the apps in it, their help from their docstrings.

    An indented paragraph stays as it is. A list of commands has whole first sentences.
    """
    app.rich_markup_mode = None
    app.info.epilog = EXIT_CODES
    for command in app.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.short_help = " ".join(paragraphs[0].split())
        command.help = "\n\n".join("\b\n" * text.startswith(" ") + text for text in paragraphs)
        command.epilog = EXIT_CODES
    for group in app.registered_groups:
        assert group.typer_instance is not None
        group.short_help = group.typer_instance.info.help
        plain_help(group.typer_instance)
