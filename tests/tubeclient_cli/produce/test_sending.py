"""What counts as sent, whenever a run is interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.producing.producer import Producer
from tubeclient_cli.produce.lines import Defaults, parser_of
from tubeclient_cli.produce.sending import Sending


class Sender:
    """Acknowledges some messages, and is interrupted by Ctrl-C at the next."""

    def __init__(self, good: int) -> None:
        self._left = good
        self.payloads: list[bytes] = []

    def submit_each(self, messages: Sequence[OutgoingMessage]) -> list[Future[Any]]:
        if not self._left:
            raise KeyboardInterrupt
        self.payloads += [one.payload for one in messages]
        self._left -= 1
        answer: Future[Any] = Future()
        answer.set_result(None)
        return [answer]


def test_a_line_that_was_interrupted_does_not_count() -> None:
    found = Sending(cast(Producer, Sender(6)), parser_of("lines", "t", Defaults()), pytest.fail)
    found.send_all([b"a\n"] * 100)
    assert (found.acknowledged, found.read, found.next_line, found.is_complete) == (6, 6, 7, False)
    assert found.summary().endswith("; stopped after line 6, go on from line 7")


def test_line_ends_and_a_byte_order_mark_are_no_part_of_messages() -> None:
    sender = Sender(3)
    sending = Sending(cast(Producer, sender), lambda line: OutgoingMessage.of("t", line), pytest.fail)
    sending.send_all([b"\xef\xbb\xbfa\r\n", b"\r\n", b"\xef\xbb\xbfb\r\r\n", b"c"])
    assert (sender.payloads, sending.skipped) == ([b"a", b"\xef\xbb\xbfb", b"c"], 1)
