"""A writing task: sends its rows, and waits until the brokers have acknowledged each of them.

A task that Spark repeats, or runs twice at once, sends its rows again: at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import WriterCommitMessage

from spark_source.options.sink_options import SinkOptions
from spark_source.write.sink_columns import InlongColumns, SinkColumns

if TYPE_CHECKING:
    import pyarrow

    from spark_source.write.sink_rows import Limits, Made

__all__ = ["Written", "describe", "write_rows"]

_PUBLISH_LIMIT_MS: Final = 10_000
"""How long to wait for a topic that cannot be written: a new topic needs some time."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has sent, by topic; all of it is acknowledged."""

    rows: Mapping[str, int]
    payload_bytes: Mapping[str, int]
    """Bodies and attributes."""


def write_rows(
    options: SinkOptions, columns: SinkColumns | InlongColumns, batches: Iterable[pyarrow.RecordBatch]
) -> Written:
    """Send all rows; returns once brokers have acknowledged each.

    Memory: one batch, its messages, and what is in flight. Raises ConfigurationError for a row that cannot be sent,
    before any row of its batch is sent, and the producer's error if a message is not delivered within `retryLimit`.
    """
    # Imported here, because the driver loads this module too and does not need them.
    from spark_source.options.access import client_settings
    from spark_source.write.in_flight import MAX_MESSAGES, InFlight
    from tubeclient import Producer

    settings = client_settings(options)
    rows: dict[str, int] = {}
    payload_bytes: dict[str, int] = {}
    producer = Producer(settings, max_in_flight=MAX_MESSAGES)  # opens nothing before it publishes
    in_flight = InFlight(
        producer.submit_each, options.retry_limit_ms + options.rpc_timeout_ms + settings.connect_timeout_ms
    )

    def limits(topics: Collection[str]) -> dict[str, int]:
        """The bytes that a message may have, by topic."""
        new = set(topics).difference(producer.topics)
        if new:
            producer.publish(new, timeout_ms=min(_PUBLISH_LIMIT_MS, options.retry_limit_ms))
        return {topic: producer.max_message_bytes(topic) for topic in topics}

    make = _maker(options, columns, limits)

    def send(batch: pyarrow.RecordBatch) -> None:  # a function, so that its messages are freed before the next batch
        made = make(batch)
        _check_sizes(limits({message.topic for message in made.messages}), made)
        in_flight.send(made.messages)
        for message, count in zip(made.messages, made.rows, strict=True):
            rows[message.topic] = rows.get(message.topic, 0) + count
            payload_bytes[message.topic] = payload_bytes.get(message.topic, 0) + len(message.payload)

    try:
        for batch in batches:
            send(batch)
        in_flight.drain()
    finally:
        producer.close(timeout_ms=0)  # after an error nobody waits for messages in flight
    return Written(rows, payload_bytes)


def describe(messages: Iterable[WriterCommitMessage | None]) -> str:
    """Return a line about what tasks have sent: rows and bytes by topic. None stands for a failed task."""
    written = [message for message in messages if isinstance(message, Written)]
    parts = [
        f"{sum(one.rows.get(topic, 0) for one in written)} rows, "
        f"{sum(one.payload_bytes.get(topic, 0) for one in written)} bytes to topic {topic}"
        for topic in sorted({topic for one in written for topic in one.rows})
    ]
    return "; ".join(parts) or "no rows"


def _maker(
    options: SinkOptions, columns: SinkColumns | InlongColumns, limits: Limits
) -> Callable[[pyarrow.RecordBatch], Made]:
    if isinstance(columns, InlongColumns):
        from spark_source.write.pack_rows import PackMaker  # needs the extra inlong

        return PackMaker(columns, options, limits).make
    from spark_source.write.sink_rows import MessageMaker

    return MessageMaker(columns, options.topic, options.message_time_zone).make


def _check_sizes(limits: Mapping[str, int], made: Made) -> None:
    from spark_source.write.sink_rows import bad_row

    for message, row in zip(made.messages, made.first_rows, strict=True):
        size, limit = len(message.payload), limits[message.topic]
        if size > limit:
            raise bad_row(row, f"with its attributes it has {size} bytes, and topic {message.topic} takes {limit}")
