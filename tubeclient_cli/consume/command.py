"""`tubeclient consume`: its arguments. Imports nothing heavy until it runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import Masters, further_options, settings_of
from tubeclient_cli.common.terminal import FurtherOptions, TimeZone, clear_errors, print_stderr


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.", show_default=False)],
    master_servers: Masters,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest, a time such as 2026-11-21T10:31Z, an offset, or JSON from partitions to offsets, "
            'as in {"1:clicks:0": 2800}, which reads only these partitions.',
        ),
    ] = "earliest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep reading messages as they arrive.")] = False,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", metavar="N", min=1, help="Stop after this many messages.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="Only messages with this tag; may be given several times."),
    ] = None,
    message_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Only messages with this id, as errors and bad records show it.")
    ] = None,
    payload: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="raw: messages as they are. inlong: the records that InLong packed into them. auto: both.",
            autocompletion=lambda: ["raw", "inlong", "auto"],
        ),
    ] = "raw",
    time_zone: TimeZone = "UTC",
    option: FurtherOptions = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object per message: value, or base64 if it is not UTF-8, partition, offset or "
            "packStart and packEnd, time, tag, attributes and messageId.",
        ),
    ] = False,
) -> None:
    """Print the messages of a topic, and end where the topic ended at the start.

    With --follow it keeps reading until Ctrl-C. Partitions are read one after
    another; messages are ordered within each. `tubeclient produce --format
    json` accepts what --json prints.

    Messages carry no offset. With --json, the command counts the offset if a
    pack, the messages of one fetch, has everything between its ends. Otherwise,
    such as when partitions share a store, or with --tag, it prints packStart
    and packEnd: the message is between them, and --from packStart reads it
    again.

    No group's position moves: the command reads ranges under the names
    tubeclient_consume-r0 to -r7.

    Examples:

      tubeclient consume clicks --from latest --follow --master-servers 10.0.0.1

      tubeclient consume clicks --json --max-messages 5 --master-servers 10.0.0.1
    """
    with clear_errors("consume"):
        from tubeclient.printable import counted
        from tubeclient.wire.message_time import zone_named
        from tubeclient_cli.common.terminal import until_interrupted
        from tubeclient_cli.consume.reading import MessagePrinter, Wanted, read_topic
        from tubeclient_cli.facts.messages import decoder_of
        from tubeclient_cli.facts.position_moves import parse_offset_spec

        zone = zone_named(time_zone)
        tags = frozenset(tag or ())
        wanted = Wanted(topic, tags, parse_offset_spec(start, "--from", zone), zone.key, follow)
        if start == "latest" and not follow:
            raise ConfigurationError("--from latest ends at once, before any message; add --follow")
        output = MessagePrinter(sys.stdout, decoder_of(payload, zone), tags, max_messages, message_id, as_json=json)
        settings = settings_of(master_servers, further_options(option))
        with until_interrupted():
            read_topic(settings, wanted, output)
        for text in output.warnings:
            print_stderr(f"tubeclient consume: {text}")
        if output.bad and not json:
            bad = counted(output.bad, "bad message")
            print_stderr(f"tubeclient consume: {bad} among them; --json shows what is wrong with each")
        if sys.stderr.isatty():
            typer.echo(counted(output.count, "message"), err=True)
