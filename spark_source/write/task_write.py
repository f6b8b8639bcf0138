"""A writing task: sends its rows, and waits until the brokers have acknowledged each of them.

A task that Spark repeats, or runs twice at once, sends its rows again: at least once.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import WriterCommitMessage

from spark_source.boundary import set_up_task
from spark_source.options.source_options import SinkOptions
from spark_source.write.sink_rows import MessageMaker, SinkColumns, bad_row
from tubeclient.errors import DeadlineExceeded

if TYPE_CHECKING:
    import pyarrow

    from tubeclient.producing.outgoing import OutgoingMessage

__all__ = ["SendWindow", "write_rows"]

MAX_SLICES: Final = 8
"""How many slices of a task's rows may be in flight to the brokers."""
SLICE_MESSAGES: Final = 250
SLICE_BYTES: Final = 1 << 20
"""A larger single message is a slice of its own."""

_ALLOCATIONS: Final = 10_000
"""Python looks for garbage after so many, while a task runs. After 700, its default, it takes a sixth of the CPU time,
as each row is some objects, and it finds nothing: they are in no cycles."""

_PUBLISH_LIMIT_MS: Final = 10_000
"""How long to wait for a topic that cannot be written: a new topic needs some time."""


def write_rows(
    options: SinkOptions, columns: SinkColumns, batches: Iterable[pyarrow.RecordBatch]
) -> WriterCommitMessage:
    """Send all rows; returns once brokers have acknowledged each.

    Memory: one batch, its messages, and what is in flight. Raises ConfigurationError for a row that cannot be sent,
    before any row of its batch is sent, and the producer's error if a message is not delivered within `retryLimit`.
    """
    # Imported here, because the driver loads this module too and does not need them.
    from spark_source.options.access import client_settings
    from tubeclient import Producer

    set_up_task()
    settings = client_settings(options)
    producer = Producer(settings, max_in_flight=MAX_SLICES * SLICE_MESSAGES)  # opens nothing before it publishes
    in_flight = SendWindow(
        producer.submit_each, options.retry_limit_ms + options.rpc_timeout_ms + settings.connect_timeout_ms
    )
    maker = MessageMaker(columns, options.topic, options.message_time_zone)

    def send(batch: pyarrow.RecordBatch) -> None:  # a function, so that its messages are freed before the next batch
        first = maker.rows
        messages = maker.make(batch)
        topics = {message.topic for message in messages}
        if new := topics.difference(producer.topics):
            producer.publish(new, timeout_ms=min(_PUBLISH_LIMIT_MS, options.retry_limit_ms))
        most = {topic: producer.max_message_bytes(topic) for topic in topics}
        for number, message in enumerate(messages, first):
            size, limit = len(message.payload), most[message.topic]
            if size > limit:
                raise bad_row(
                    number, f"with its attributes it has {size} bytes, but topic {message.topic} allows {limit}"
                )
        in_flight.send(messages)

    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(_ALLOCATIONS, *thresholds[1:])
        for batch in batches:
            send(batch)
        in_flight.drain()
    finally:
        gc.set_threshold(*thresholds)
        producer.close(timeout_ms=0)  # after an error nobody waits for messages in flight
    return WriterCommitMessage()


class SendWindow:
    """Sends messages in order, with at most MAX_SLICES slices of them in flight.

    `timeout_ms` is how long to wait for the answers to one slice; the sender gives up earlier, with a reason.
    """

    def __init__(self, submit: Callable[[Sequence[OutgoingMessage]], list[Future[Any]]], timeout_ms: float) -> None:
        self._submit = submit
        self._answer_timeout_ms = timeout_ms
        self._slices: deque[list[Future[Any]]] = deque()

    def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send all; waits while too much is in flight. Raises the error of an earlier message that failed."""
        for part in _slices(messages):
            if len(self._slices) == MAX_SLICES:
                self._settle_oldest()
            self._slices.append(self._submit(part))

    def drain(self) -> None:
        """Wait until every message is acknowledged; raises the error of one that failed."""
        while self._slices:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        for answer in reversed(self._slices.popleft()):  # once the last one is there, nobody waits for the others
            try:
                answer.result(self._answer_timeout_ms / 1000)
            except TimeoutError as error:
                if isinstance(error, DeadlineExceeded):
                    raise
                late = f"a message was neither acknowledged nor given up within {self._answer_timeout_ms:.0f} ms"
                raise DeadlineExceeded(late) from None


def _slices(messages: Sequence[OutgoingMessage]) -> Iterator[Sequence[OutgoingMessage]]:
    """Yield `messages` in parts of at most SLICE_MESSAGES and SLICE_BYTES, with at least one in each."""
    start = size = 0
    for number, message in enumerate(messages):
        if number > start and (number - start >= SLICE_MESSAGES or size + len(message.payload) > SLICE_BYTES):
            yield messages[start:number]
            start, size = number, 0
        size += len(message.payload)
    if start < len(messages):
        yield messages[start:]
