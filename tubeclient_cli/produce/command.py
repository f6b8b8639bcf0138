"""`tubeclient produce`: its arguments. Imports nothing heavy until it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import Masters, further_options, pairs, settings_of
from tubeclient_cli.common.terminal import ExitCode, FurtherOptions, TimeZone, clear_errors, exit_code, print_stderr
from tubeclient_cli.facts.topics import topics_known


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to send to.", show_default=False)],
    master_servers: Masters,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to send (default: standard input).", show_default=False)
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="lines: each line is a message. json: each line is an object with value (text) or base64, and "
            "optionally tag, attributes (an object) and time, as `tubeclient consume --json` prints them. If "
            "your data is itself JSON, use lines.",
            autocompletion=lambda: ["lines", "json"],
        ),
    ] = "lines",
    tag: Annotated[
        str, typer.Option(metavar="TAG", help="The tag of all messages that have no tag of their own.")
    ] = "",
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An attribute of all messages; may be given several times."),
    ] = None,
    time_zone: TimeZone = "UTC",
    option: FurtherOptions = None,
) -> None:
    """Send the lines of a file, or of standard input, to a topic.

    Prints how many messages the brokers acknowledged. If a line cannot be sent,
    the command reports its number, sends the others, and exits with 1. If it
    can no longer reach the cluster, it stops and says from which line to
    continue (exit code 3). It does the same after Ctrl-C, SIGTERM and input
    that it cannot read (exit code 1). Empty lines are skipped, but they count
    as lines.

    Messages get the current time, to the minute, unless a JSON line has its
    own: `consume --from TIME` uses this time.

    Delivery is at least once: after a fault a message may be duplicated.

    Examples:

      tubeclient produce clicks --file clicks.txt --master-servers 10.0.0.1

      echo '{"value": "hello", "tag": "web"}' | tubeclient produce clicks \\
        --format json --master-servers 10.0.0.1
    """
    with clear_errors("produce"):
        from tubeclient.producing.producer import Producer
        from tubeclient.wire.message_time import zone_named
        from tubeclient_cli.common.terminal import until_interrupted
        from tubeclient_cli.produce.sending import Sending, parser_of

        zone = zone_named(time_zone)
        parse = parser_of(format, topic, tag, pairs("--attribute", attribute), zone)
        settings = settings_of(master_servers, further_options(option))
        try:
            stream = sys.stdin.buffer if file is None else file.open("rb")
        except OSError as error:
            raise ConfigurationError(f"--file {file} cannot be read: {error.strerror or error}") from None
        sending: Sending | None = None
        with until_interrupted(), stream:
            if file is None and stream.isatty():
                typer.echo("reading from the terminal, one message per line; end with Ctrl-D", err=True)
            with Producer(settings) as producer:
                with topics_known(settings, [topic]):
                    producer.publish([topic])
                sending = Sending(producer, parse, lambda text: print_stderr(f"tubeclient produce: {text}"))
                sending.send_all(stream)
                typer.echo(sending.summary())
        if sending is None:
            print_stderr("tubeclient produce: interrupted before the first line; nothing was sent")
            raise typer.Exit(ExitCode.FAILED)
        if sending.stopped_by is not None:
            raise typer.Exit(exit_code(sending.stopped_by))
        if sending.failed or not sending.is_complete:
            raise typer.Exit(ExitCode.FAILED)
