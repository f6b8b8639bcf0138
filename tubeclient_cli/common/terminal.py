"""What all commands do alike: output, one line for an error, exit codes, help, and how signals end them."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from enum import IntEnum
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tubeclient import conditions
from tubeclient.printable import printable, without_passwords

if TYPE_CHECKING:
    from rich.console import Console

    from tubeclient.names import GroupName


class ExitCode(IntEnum):
    """How every command ends."""

    DONE = 0
    FAILED = conditions.FAILED
    USAGE = conditions.USAGE
    UNREACHABLE = conditions.UNREACHABLE


def named_group(text: str) -> GroupName:
    """The parser of options and arguments that name a consumer group."""
    from tubeclient.errors import ConfigurationError
    from tubeclient.names import group_name

    try:
        return group_name(text)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
FurtherOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A connection option of the source, such as masterWebPort=8080 (default: TUBECLIENT_MASTER_WEB_PORT of "
        "the environment, otherwise 8080).",
    ),
]
SparkMaster = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark's master (default: all cores of this machine).")
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Access to the table's storage; secrets in it are never printed. They are safer in the environment, for "
        "example as AWS_SECRET_ACCESS_KEY.",
    ),
]
TimeZone = Annotated[
    str, typer.Option(metavar="ZONE", help="The time zone of the producers' clocks, and of times without a zone.")
]
SparkConf = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; may be given several times.")
]


def table_console() -> Console:
    """The console for tables."""
    from tubeclient_cli.common.tables import PlainConsole

    # Files and pipes have no width, so nothing is cut there.
    return PlainConsole(width=None if sys.stdout.isatty() else 10_000)


def one_line(text: str) -> str:
    """The text, printable, without passwords of URIs, and on one line: its lines are joined with blanks."""
    return printable(without_passwords(" ".join(text.splitlines())))


def print_json(document: dict[str, Any]) -> None:
    """One object on one line."""
    typer.echo(json.dumps(document))


def print_stderr(text: str) -> None:
    """Print one line on standard error."""
    typer.echo(one_line(text), err=True)


class Unreachable(Exception):
    """A table or Spark that cannot be reached; the text is the line for the user."""

    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text)
        self.condition = condition


def exit_code(error: BaseException | None) -> ExitCode:
    """The exit code of an error of the cluster or of a table. One that a broker caused counts as its own."""
    from tubeclient.conditions import CONDITIONS
    from tubeclient.errors import BrokerFailed

    match error:
        case BrokerFailed():
            return exit_code(error.__cause__)
        case Unreachable():
            return ExitCode.UNREACHABLE
    found = CONDITIONS.get(getattr(error, "condition", None) or "")
    return ExitCode.FAILED if found is None else ExitCode(found.exit_code)


@contextlib.contextmanager
def clear_errors(command: str, program: str = "tubeclient ") -> Iterator[None]:
    """Print errors of the user, a table, Spark, the cluster or the system as one line, and exit with their code. The
    line begins with `program` and `command`. What the encoding of the output lacks is escaped."""
    from tubeclient.conditions import error_text

    # Another program of this terminal may have said that they do not block; Python takes that for the end of the input.
    for number in (0, 1):
        with contextlib.suppress(OSError):
            os.set_blocking(number, True)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    except expected_errors() as error:
        print_stderr(f"{program}{command}: {error_text(error)}")
        raise typer.Exit(exit_code(error)) from None
    except BrokenPipeError:  # `| head`: the command ends quietly
        raise
    except OSError as error:
        print_stderr(f"{program}{command}: input or output failed: {error}")
        discard_output()
        raise typer.Exit(ExitCode.FAILED) from None


def expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose text is for the user."""
    from tubeclient.errors import TubeError
    from tubeclient.extras import MissingPackage

    # Its import takes long, and without it there is no error of it.
    tables = sys.modules.get("offsets_store.errors")
    always = (TubeError, MissingPackage, Unreachable)
    return always if tables is None else (*always, tables.OffsetsTableError)


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed pipe (`| head`) end the block quietly."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        discard_output()
    finally:
        signal.signal(signal.SIGTERM, before)


def discard_output() -> None:
    """Standard output goes nowhere from now on. Python flushes it at its end, which would fail again."""
    with contextlib.suppress(OSError):  # it has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stop_on_signals(stop: threading.Event, notice: str = "") -> None:
    """Ctrl-C and SIGTERM set `stop`, from now on, and print `notice` on standard error; a second one ends the process
    at once, whatever holds it up, such as output that nobody takes. A Spark session that starts later puts its own
    handler in place; then call it again."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.set()
        if notice:
            with contextlib.suppress(OSError):
                os.write(2, f"{notice}\n".encode())  # the signal may have come in the middle of a print

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


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


class Program(typer.Typer):
    """A command line. If its output fails, for help too, that is one line and exit code 1."""

    def __init__(self, **settings: Any) -> None:
        # Local variables in a traceback would show passwords.
        super().__init__(
            pretty_exceptions_show_locals=False, context_settings={"help_option_names": ["-h", "--help"]}, **settings
        )

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        try:
            return super().__call__(*arguments, **settings)
        except BrokenPipeError:  # `| head`
            raise
        except OSError as error:
            print_stderr(f"{self.info.name or sys.argv[0]}: input or output failed: {error}")
            discard_output()
            sys.exit(ExitCode.FAILED)


def script_app(command: Callable[..., object]) -> Program:
    """A script that is one command, for spark-submit."""
    app = Program(add_completion=False)
    app.command()(command)
    plain_help(app)
    return app
