"""The help of all commands: plain text, as wide as the terminal, with the exit codes at its end.

Without Rich: a terminal, a pipe and a bug report show the same, and help starts in half the time.
"""

from __future__ import annotations

import inspect
from typing import Any

import typer
from typer.core import TyperCommand

__all__ = ["EXIT_CODES", "plain_help"]

EXIT_CODES = """\b
Exit codes:
  0  done
  1  the work failed, or the answer is that something is not well
  2  wrong usage or settings
  3  the cluster, a table or Spark cannot be reached
"""
"""The end of each help."""


class _AllMissing(TyperCommand):
    """A command that names all required arguments and options that are not given, not the first one alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if not _is_missing(error):
                raise
            values = self.make_parser(ctx).parse_args(args=given)[0]
            lacking = [_named(one) for one in self.params if one.required and _lacks(one, ctx, values)]
            if len(lacking) > 1:
                ctx.fail(f"Missing {', '.join(lacking)}.")
            raise


def _lacks(parameter: Any, ctx: Any, values: Any) -> bool:
    try:
        parameter.process_value(ctx, parameter.consume_value(ctx, values)[0])
    except Exception as error:  # another one is told once nothing is missing
        return _is_missing(error)
    return False


def _is_missing(error: Exception) -> bool:
    # By name: Typer has click's classes, and newer versions of it have copies of their own.
    return type(error).__name__ == "MissingParameter"


def _named(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"argument '{parameter.metavar or parameter.name.upper()}'"
    variable = f" (env var: '{parameter.envvar}')" if parameter.envvar else ""
    return f"option '{parameter.opts[0]}'{variable}"


def plain_help(app: typer.Typer) -> None:
    """Give all commands of `app`, and of the apps in it, their help from their docstrings, and let them name all that
    is missing at once.

    An indented paragraph stays as it is. A list of commands has whole first sentences.
    """
    app.rich_markup_mode = None
    app.info.epilog = EXIT_CODES
    for command in app.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.short_help = " ".join(paragraphs[0].split())
        command.help = "\n\n".join("\b\n" * text.startswith(" ") + text for text in paragraphs)
        command.epilog = EXIT_CODES
        command.cls = _AllMissing
    for group in app.registered_groups:
        assert group.typer_instance is not None
        group.short_help = group.typer_instance.info.help
        plain_help(group.typer_instance)
