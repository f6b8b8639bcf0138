"""Back-pressure: never more on its way than allowed, whatever comes in, and nothing taken for sent that is not."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.write import task_write
from spark_source.write.task_write import SendWindow
from tubeclient.errors import DeadlineExceeded, ServerBusy
from tubeclient.producing.outgoing import OutgoingMessage


class _Asked(Future[Any]):
    """Is answered when somebody waits for it; until then it is on its way."""

    def __init__(self, sender: FakeSender, message: OutgoingMessage) -> None:
        super().__init__()
        self._sender, self._message = sender, message

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "every wait has an end"
        if not self.done():
            self._sender.answer(self._message, self)
        return super().result(0)


class FakeSender:
    def __init__(self, refuse: bytes = b"") -> None:
        self.refuse = refuse
        self.sent: list[OutgoingMessage] = []
        self.on_the_way: deque[OutgoingMessage] = deque()
        self.most_messages = self.most_bytes = 0

    def submit_each(self, messages: Sequence[OutgoingMessage]) -> list[Future[Any]]:
        self.sent += messages
        self.on_the_way += messages
        self.most_messages = max(self.most_messages, len(self.on_the_way))
        if len(self.on_the_way) > 1:
            self.most_bytes = max(self.most_bytes, sum(len(one.payload) for one in self.on_the_way))
        return [_Asked(self, message) for message in messages]

    def answer(self, message: OutgoingMessage, future: Future[Any]) -> None:
        self.on_the_way.remove(message)
        if message.payload == self.refuse:
            future.set_exception(ServerBusy(503, "busy", context="sending to 1:t:0"))
        else:
            future.set_result(None)


def messages(sizes: Sequence[int]) -> list[OutgoingMessage]:
    return [OutgoingMessage.of("t", b"%d" % number + bytes(size)) for number, size in enumerate(sizes)]


@given(
    st.lists(st.lists(st.sampled_from([0, 10, 3_000, 4_900]), max_size=30), max_size=6),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_sending_order_and_limit(batches: list[list[int]], max_slices: int, slice_messages: int) -> None:
    """The window sends all messages in order and never exceeds its limits."""
    limits = {"MAX_SLICES": max_slices, "SLICE_MESSAGES": slice_messages, "SLICE_BYTES": 5_000}
    sender = FakeSender()
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in limits.items():
            patch.setattr(task_write, name, limit)
        flying = SendWindow(sender.submit_each, 1_000)
        for sizes in batches:
            flying.send(messages(sizes))
        assert len(sender.sent) == sum(map(len, batches))
        flying.drain()
    assert sender.sent == [one for sizes in batches for one in messages(sizes)]
    assert not sender.on_the_way
    assert sender.most_messages <= max_slices * slice_messages
    assert sender.most_bytes <= max_slices * 5_000


def test_a_message_that_failed_ends_the_sending() -> None:
    sender = FakeSender(refuse=b"5")
    flying = SendWindow(sender.submit_each, 1_000)
    with pytest.raises(ServerBusy, match="sending to 1:t:0"):
        flying.send(messages([0] * 10_000))
    assert len(sender.sent) == task_write.MAX_SLICES * task_write.SLICE_MESSAGES


def test_the_wait_for_an_answer_ends() -> None:
    class Silent:
        def submit_each(self, messages: Sequence[OutgoingMessage]) -> list[Future[Any]]:
            return [Future() for _ in messages]

    flying = SendWindow(Silent().submit_each, 10)
    flying.send(messages([0]))
    with pytest.raises(DeadlineExceeded, match="neither acknowledged nor given up within 10 ms"):
        flying.drain()
