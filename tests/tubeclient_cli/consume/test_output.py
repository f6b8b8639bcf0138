"""What a terminal gets of messages that hold anything."""

from __future__ import annotations

import io

from tubeclient.flows.read_range import Pack
from tubeclient.keys import PartitionKey
from tubeclient.wire.messages import Columns
from tubeclient_cli.consume.reading import MessagePrinter

BODIES = [b"Zo\xc3\xab\t1", b"\x1b[31mred\xff", "a\u2028b".encode()]


class Stream(io.TextIOWrapper):
    def __init__(self, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def pack_of(damaged: dict[int, str] | None = None) -> Pack:
    """Three messages without tags. Bad ones are wanted whatever their tag."""
    return Pack(PartitionKey(1, "clicks", 0), 0, 84, Columns([1, 2, 3], BODIES, [0, 0, 0]), damaged)


def printed(*, terminal: bool, tags: frozenset[str] = frozenset(), damaged: dict[int, str] | None = None) -> bytes:
    stream = Stream(terminal)
    output = MessagePrinter(stream, None, tags, None, as_json=False)
    output.write(pack_of(damaged))
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


def test_a_terminal_gets_no_control_characters() -> None:
    assert printed(terminal=True) == "Zoë\t1\n\\x1b[31mred\\xff\na\\u2028b\n".encode()


def test_a_file_gets_the_bytes_as_they_are() -> None:
    assert printed(terminal=False) == b"".join(body + b"\n" for body in BODIES)


def test_a_bad_message_has_no_tag_that_could_be_missed() -> None:
    assert printed(terminal=False, tags=frozenset({"web"}), damaged={1: "the checksum is wrong"}) == BODIES[1] + b"\n"
