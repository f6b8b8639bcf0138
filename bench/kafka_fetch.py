"""Kafka's Fetch request, version 4, as bytes; and how many messages its answer holds, by the headers of its batches.

This is enough for a reader that throws the messages away: the headers of record batches (format 2) say where the next
fetch begins. Integers are big-endian, as everywhere in Kafka's protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["FetchError", "PartitionAnswer", "Walked", "fetch_request", "walk_batches", "walk_response"]

_API_FETCH: Final = 1
_VERSION: Final = 4
_CLIENT: Final = b"bench"
_REPLICA_OF_A_CLIENT: Final = -1

_REQUEST_HEAD: Final = struct.Struct(f">hhih{len(_CLIENT)}siiiib")
_REQUEST_PARTITION: Final = struct.Struct(">iqi")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ihqq")
# A batch: baseOffset 8, batchLength 4 (of all that follows), leader epoch 4, magic 1, checksum 4, attributes 2,
# lastOffsetDelta 4, two times 16, producer 14, number of records 4.
_BATCH_HEAD: Final = struct.Struct(">qi")
_BATCH_MAGIC: Final = 16
_BATCH_LAST_DELTA: Final = 23
_BATCH_RECORDS: Final = 57
_BATCH_HEADERS: Final = 61
_MAGIC: Final = 2


class FetchError(RuntimeError):
    """The broker refused, or its answer cannot be parsed here."""


class Walked(NamedTuple):
    """What record batches hold."""

    next_offset: int
    messages: int


class PartitionAnswer(NamedTuple):
    """What an answer says about one partition."""

    walked: Walked
    end: int
    """The partition's own end, its high watermark."""


def fetch_request(
    correlation: int, topic: str, offsets: Mapping[int, int], *, max_wait_ms: int, max_bytes: int, partition_bytes: int
) -> bytes:
    """One request, length in front, for the partitions in `offsets` from these offsets on.

    The answer has at most about `max_bytes` bytes, and `partition_bytes` of each partition.
    """
    name = topic.encode()
    body = _REQUEST_HEAD.pack(
        _API_FETCH, _VERSION, correlation, len(_CLIENT), _CLIENT, _REPLICA_OF_A_CLIENT, max_wait_ms, 1, max_bytes, 0
    )
    body += _INT.pack(1) + _SHORT.pack(len(name)) + name + _INT.pack(len(offsets))
    for partition, offset in offsets.items():
        body += _REQUEST_PARTITION.pack(partition, offset, partition_bytes)
    return _INT.pack(len(body)) + body


def walk_response(answer: memoryview, asked: Mapping[int, int]) -> dict[int, PartitionAnswer]:
    """What an answer (without its length in front) holds of each partition, given the offsets that were asked for.

    FetchError: the broker reports an error for a partition.
    """
    found: dict[int, PartitionAnswer] = {}
    position = 8  # correlation id and throttle time
    (topics,) = _INT.unpack_from(answer, position)
    position += 4
    for _ in range(topics):
        (length,) = _SHORT.unpack_from(answer, position)
        position += 2 + length
        (partitions,) = _INT.unpack_from(answer, position)
        position += 4
        for _ in range(partitions):
            partition, error, end, _stable = _PARTITION.unpack_from(answer, position)
            position += _PARTITION.size
            if error:
                raise FetchError(f"partition {partition}: Kafka's error code {error}")
            (aborted,) = _INT.unpack_from(answer, position)
            position += 4 + 16 * max(0, aborted)
            (size,) = _INT.unpack_from(answer, position)
            position += 4
            walked = walk_batches(answer[position : position + max(0, size)], asked[partition])
            found[partition] = PartitionAnswer(walked, end)
            position += max(0, size)
    return found


def walk_batches(batches: memoryview, asked: int) -> Walked:
    """The messages from offset `asked` on in the whole batches of `batches`, and the offset that follows them.

    The last batch may be cut off and then does not count. The first may begin before `asked`, since brokers send whole
    batches. FetchError: another format than 2.
    """
    position, following, messages = 0, asked, 0
    while position + _BATCH_HEADERS <= len(batches):
        base, length = _BATCH_HEAD.unpack_from(batches, position)
        if position + _BATCH_HEAD.size + length > len(batches):
            break
        if batches[position + _BATCH_MAGIC] != _MAGIC:
            raise FetchError(f"a record batch of format {batches[position + _BATCH_MAGIC]}, not {_MAGIC}")
        (last_delta,) = _INT.unpack_from(batches, position + _BATCH_LAST_DELTA)
        (records,) = _INT.unpack_from(batches, position + _BATCH_RECORDS)
        messages += records - max(0, asked - base)
        following = base + last_delta + 1
        position += _BATCH_HEAD.size + length
    return Walked(following, messages)
