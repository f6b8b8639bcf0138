"""What counts as sent, whenever a run is interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tubeclient.outgoing import OutgoingMessage
from tubeclient.producer import Producer, SendResult
from tubeclient_cli.produce.lines import Defaults, parser_of
from tubeclient_cli.produce.sending import Sending


class Waits(Future[SendResult]):
    """No answer comes while Ctrl-C does."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        raise KeyboardInterrupt


class Sender:
    """Acknowledges some messages, answers none of some more, and is interrupted by Ctrl-C at the next."""

    def __init__(self, good: int, silent: int) -> None:
        self._left = ["good"] * good + ["silent"] * silent
        self.payloads: list[bytes] = []

    def submit_each(self, messages: Sequence[OutgoingMessage]) -> list[Future[Any]]:
        if not self._left:
            raise KeyboardInterrupt
        self.payloads += [one.payload for one in messages]
        answer: Future[Any] = Future() if self._left.pop(0) == "good" else Waits()
        if not isinstance(answer, Waits):
            answer.set_result(None)
        return [answer]


def sent(good: int, silent: int) -> Sending:
    sending = Sending(cast(Producer, Sender(good, silent)), parser_of("lines", "t", Defaults()), pytest.fail)
    sending.send_all([b"a\n"] * 100)
    return sending


def test_a_line_that_was_interrupted_does_not_count() -> None:
    found = sent(6, 0)
    assert (found.acknowledged, found.read, found.next_line, found.is_complete) == (6, 6, 7, False)
    assert found.summary().endswith("; stopped after line 6, go on from line 7")


def test_line_ends_and_a_byte_order_mark_are_no_part_of_messages() -> None:
    sender = Sender(3, 0)
    sending = Sending(cast(Producer, sender), parser_of("lines", "t", Defaults()), pytest.fail)
    sending.send_all([b"\xef\xbb\xbfa\r\n", b"\r\n", b"\xef\xbb\xbfb\r\r\n", b"c"])
    assert (sender.payloads, sending.skipped) == ([b"a", b"\xef\xbb\xbfb", b"c"], 1)


def test_a_second_interruption_leaves_a_summary_with_what_is_open() -> None:
    found = sent(6, 3)
    assert (found.acknowledged, found.unanswered, found.read, found.next_line) == (6, 3, 9, 7)
    assert "; 3 without an answer, which may be there or not; stopped after line 9, go on from" in found.summary()
