"""A message in flight, the future that its caller has, and what a broker's answer says of it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from tubeclient.errors import ProtocolError, TubeError, status_error
from tubeclient.keys import PartitionKey
from tubeclient.net.fork import ProcessBound
from tubeclient.net.waiting import Outcome
from tubeclient.wire.envelope import decode_response, parse_message
from tubeclient.wire.framing import Frame
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

_SEND_ID = Method.SEND_MESSAGE.spec.method_id


class SendResult(NamedTuple):
    """Where a message was stored. `offset` is its index offset, or None if the broker did not return one."""

    partition: PartitionKey
    offset: int | None
    message_id: int


class Answer(Outcome[SendResult]):
    """The producer's future for a message. In a forked child it raises ClientClosed: waiting there would never end."""

    def __init__(self, maker: ProcessBound) -> None:
        super().__init__()
        self._maker = maker
        self.set_running_or_notify_cancel()  # a submitted message cannot be cancelled

    def result(self, timeout: float | None = None) -> SendResult:
        self._maker.check_process()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._maker.check_process()
        return super().exception(timeout)


@dataclass(slots=True, eq=False)
class Sending:
    """A message in flight."""

    topic: str
    payload: bytes
    flag: int
    tag: str
    time: str
    result: Future[SendResult]
    deadline: float  # by monotonic(), seconds
    submitted: float = field(default_factory=monotonic)
    attempts: int = 0
    tried: PartitionKey | None = None  # by the last attempt
    fault: TubeError | None = None  # of the last attempt


def result_of(answer: Frame, key: PartitionKey) -> SendResult:
    """What a broker's answer to a message says. Raises the error of its code, ProtocolError."""
    data = decode_response(answer.stream, _SEND_ID)
    response = parse_message(broker_pb2.SendMessageResponseB2P, data)
    if response.errCode != 200:
        raise status_error(response.errCode, response.errMsg, context=f"sending to {key}", partition=str(key))
    offset = response.appendOffset if response.HasField("appendOffset") else None
    if response.HasField("messageId"):
        return SendResult(key, offset, response.messageId)
    try:
        return SendResult(key, offset, int(response.errMsg))  # brokers before 1.0 put the id there
    except ValueError:
        raise ProtocolError(f"the broker stored a message for {key} but returned no messageId") from None
