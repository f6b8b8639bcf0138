"""What one task of a write does, over sockets: beside another attempt of the same task, and with a slow broker."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tubeclient
from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from spark_source.options.given import parse_given
from spark_source.options.source_options import SinkOptions
from spark_source.write.sink_rows import SinkColumns
from spark_source.write.task_write import MAX_SLICES, SLICE_BYTES, SLICE_MESSAGES, write_rows
from tests.tubeclient.stored import bodies, stored
from tubeclient import ConfigurationError, OutgoingMessage, Producer, SendResult
from tubeclient.wire.payload import decode_payload

COLUMNS = SinkColumns(value=0, tag=1)


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("rows", stores=1, partitions=4)], brokers=2) as running:
        yield running


def options(tube: EmbeddedTubeMQ, **more: str) -> SinkOptions:
    return parse_given({"masterservers": tube.master_address, "topic": "rows", **more}).of(SinkOptions)


def batches(values: Sequence[bytes], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of so many rows; a row's tag is the length of its value."""
    for first in range(0, len(values), rows):
        part = values[first : first + rows]
        yield pa.RecordBatch.from_arrays(
            [pa.array(part, pa.binary()), pa.array([str(len(value)) for value in part])], names=["value", "tag"]
        )


def test_two_attempts_at_once(tube: EmbeddedTubeMQ) -> None:
    """As with speculation, where Spark lets one of them go on to the end for nothing."""
    rng = random.Random(4)
    values = [rng.randbytes(rng.choice([1, 28, 900, 20_000])) + b"%d" % number for number in range(3_000)]
    together = threading.Barrier(2)

    def attempt(_: int) -> None:
        together.wait(30)
        write_rows(options(tube), COLUMNS, batches(values, 250))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attempt, range(2)))
    assert bodies(tube, "rows") == Counter(values * 2)
    for record in (record for found in stored(tube, "rows").values() for record in found):
        body, attributes = decode_payload(record.payload, record.flag)
        assert attributes == f"$msgType$={len(body)}"


class WatchedProducer(Producer):
    """Notes what it has been given and what is unanswered. By `done`: callbacks may come after who waits for the answer
    has gone on."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.given = self.most_messages = self.most_bytes = 0
        self.unanswered: list[tuple[Future[SendResult], int]] = []

    def answered(self) -> int:
        self.unanswered = [(answer, size) for answer, size in self.unanswered if not answer.done()]
        return self.given - len(self.unanswered)

    def submit_each(
        self, messages: Sequence[OutgoingMessage], *, timeout_ms: float | None = None
    ) -> list[Future[SendResult]]:
        self.answered()
        sizes = [len(message.payload) for message in messages]
        self.given += len(messages)
        self.most_messages = max(self.most_messages, len(self.unanswered) + len(messages))
        self.most_bytes = max(self.most_bytes, sum(size for _, size in self.unanswered) + sum(sizes))
        answers = super().submit_each(messages, timeout_ms=timeout_ms)
        self.unanswered += zip(answers, sizes, strict=True)
        return answers


@pytest.mark.parametrize(("count", "size", "rows"), [(8_000, 10, 500), (60, 400_000, 5)])
def test_slow_broker_delays_the_task(
    tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch, count: int, size: int, rows: int
) -> None:
    """A slow broker delays the task, which buffers no more than its limit."""
    producers: list[WatchedProducer] = []

    def watched(*arguments: Any, **more: Any) -> WatchedProducer:
        producers.append(WatchedProducer(*arguments, **more))
        return producers[-1]

    monkeypatch.setattr(tubeclient, "Producer", watched)
    for broker_id in tube.broker_ids:
        tube.broker_faults(broker_id).answer_delay_ms = 1 if rows > 5 else 20
    taken = most_ahead = 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal taken, most_ahead
        for batch in batches([b"%06d" % number + bytes(size) for number in range(count)], rows):
            if producers:
                most_ahead = max(most_ahead, taken - producers[0].answered())
            taken += batch.num_rows
            yield batch

    write_rows(options(tube), COLUMNS, source())
    (producer,) = producers
    limit = MAX_SLICES * min(SLICE_MESSAGES, SLICE_BYTES // size)
    assert limit * 0.7 < producer.most_messages <= limit
    assert producer.most_bytes <= MAX_SLICES * SLICE_BYTES
    # Before it takes the next batch, all rows of those before are sent or on their way.
    assert most_ahead <= limit
    assert sum(bodies(tube, "rows").values()) == count


def test_oversized_row(tube: EmbeddedTubeMQ) -> None:
    """A row over the topic's limit is an error, and no row of its batch is sent."""
    rows = [*batches([b"c"] * 3, 3), *batches([b"d", b"d", bytes(1 << 20)], 3)]
    message = (
        r"row 5 of this task cannot be sent: with its attributes it has \d{7} bytes, but topic rows allows 1048576"
    )
    with pytest.raises(ConfigurationError, match=message):
        write_rows(options(tube), COLUMNS, rows)
    assert b"d" not in bodies(tube, "rows")


LIMITED = """
import sys
from pyspark.worker_util import setup_memory_limits
setup_memory_limits(512)
import numpy, pandas, pyarrow as pa
from spark_source.options.given import parse_given
from spark_source.options.source_options import SinkOptions
from spark_source.write.sink_rows import SinkColumns
from spark_source.write.task_write import write_rows
options = parse_given({"masterservers": sys.argv[1], "topic": "rows"}).of(SinkOptions)
values = [b"%06d" % number + bytes(200) for number in range(10_000)]
batches = (pa.RecordBatch.from_arrays([pa.array(values)], names=["value"]) for _ in range(10))
write_rows(options, SinkColumns(value=0), batches)
"""


def test_a_task_writes_within_512_mb_of_addresses(tmp_path: Path) -> None:
    """As in a worker of a Spark with `spark.executor.pyspark.memory`, which has imported pandas too."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("rows", stores=1, partitions=4)], brokers=6) as tube:
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, tube.master_address],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert sum(bodies(tube, "rows").values()) == 100_000
