"""Kafka's Fetch request and answer, on bytes put together by hand from the protocol's description."""

from __future__ import annotations

import struct

import pytest

from bench.kafka_fetch import FetchError, PartitionAnswer, Walked, fetch_request, walk_batches, walk_response


def batch(
    base: int, records: int, *, magic: int = 2, last_delta: int | None = None, payload: bytes = b"p" * 9
) -> bytes:
    """A record batch whose header says it has so many records; what they are nobody looks at."""
    last = records - 1 if last_delta is None else last_delta
    after_length = struct.pack(">ibihiqqqhii", 0, magic, 0, 0, last, 0, 0, -1, -1, -1, records) + payload
    return struct.pack(">qi", base, len(after_length)) + after_length


def test_whole_batches_count_and_one_that_is_cut_off_does_not() -> None:
    assert walk_batches(memoryview(batch(10, 3) + batch(13, 4)), 10) == Walked(17, 7)
    assert walk_batches(memoryview(batch(10, 3) + batch(13, 4)[:-1]), 10) == Walked(13, 3)
    assert walk_batches(memoryview(batch(10, 3)[:20]), 10) == Walked(10, 0)
    assert walk_batches(memoryview(b""), 10) == Walked(10, 0)


def test_records_before_the_offset_that_was_asked_for_do_not_count() -> None:
    assert walk_batches(memoryview(batch(10, 5)), 12) == Walked(15, 3)


def test_the_next_offset_comes_from_the_last_delta_not_from_the_number_of_records() -> None:
    """After compaction a batch has fewer records than offsets."""
    assert walk_batches(memoryview(batch(10, 3, last_delta=9)), 10) == Walked(20, 3)


def test_an_older_format_is_refused() -> None:
    with pytest.raises(FetchError, match="format 1"):
        walk_batches(memoryview(batch(0, 1, magic=1)), 0)


def part(partition: int, records: bytes, *, error: int = 0, end: int = 99, aborted: int = -1) -> bytes:
    head = struct.pack(">ihqqi", partition, error, end, end, aborted) + b"a" * 16 * max(0, aborted)
    return head + struct.pack(">i", len(records)) + records


def answer(*parts: bytes) -> memoryview:
    head = struct.pack(">iiih", 7, 0, 1, 5) + b"topic"
    return memoryview(head + struct.pack(">i", len(parts)) + b"".join(parts))


def test_an_answer_is_walked_partition_by_partition() -> None:
    found = walk_response(
        answer(part(0, batch(5, 2)), part(4, b"", end=8, aborted=2), part(2, batch(0, 1))), {0: 5, 4: 8, 2: 0}
    )
    assert found == {
        0: PartitionAnswer(Walked(7, 2), 99),
        4: PartitionAnswer(Walked(8, 0), 8),
        2: PartitionAnswer(Walked(1, 1), 99),
    }


def test_an_error_of_a_partition_is_an_error() -> None:
    with pytest.raises(FetchError, match="partition 3: Kafka's error code 1"):
        walk_response(answer(part(3, b"", error=1)), {3: 0})


def test_a_request_says_what_the_protocol_wants() -> None:
    sent = fetch_request(7, "top", {1: 10, 0: 3}, max_wait_ms=500, max_bytes=50, partition_bytes=20)
    assert sent == (
        struct.pack(">i", len(sent) - 4)
        + struct.pack(">hhih", 1, 4, 7, 5) + b"bench"
        + struct.pack(">iiiib", -1, 500, 1, 50, 0)
        + struct.pack(">ih", 1, 3) + b"top"
        + struct.pack(">iiqiiqi", 2, 1, 10, 20, 0, 3, 20)
    )  # fmt: skip
