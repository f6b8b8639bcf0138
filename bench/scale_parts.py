"""Parts that the costs at scale are computed from, each measured alone: what a task asks a broker, and what a commit to
the offsets table leaves on a disk. Both before the simulation's stand-ins take Python's clocks away.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from unittest import mock

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from embedded_tubemq.broker.broker import OP_REGISTER
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from spark_source.options.given import parse_options
from spark_source.stream.batch_reader import TubeBatchReader
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.net.connection import Connection
from tubeclient.wire.envelope import decode_request
from tubeclient.wire.methods import Method, method_of

__all__ = ["TableCommits", "requests_of_a_range", "table_commits"]

_RANGES: Final = 10
_MESSAGES: Final = 50
"""Of a range: less than a broker sends at once."""
_BROKERS: Final = 10
_MOST_ENTRIES, _MOST_NEW_ENTRIES = 1 << 30, 20_000


class TableCommits(NamedTuple):
    """Commits of all positions to an offsets table on a local disk."""

    milliseconds: float
    """The median."""
    data_bytes: int
    """That a commit adds to the table's data, before the upkeep removes what newer ones replace."""
    log_bytes: int


def requests_of_a_range(folder: Path) -> Counter[str]:
    """What a task sends a broker for each of its ranges, by the name of the call; one fetch has all messages."""
    topic = TopicConfig("asked", 1, _RANGES)
    with EmbeddedTubeMQ(folder, [topic]) as tube:
        tube.load(topic.name, [NewMessage(n % _RANGES, b"%d" % n) for n in range(_RANGES * _MESSAGES)])
        options = {
            "masterServers": tube.master_address,
            "masterWebPort": str(tube.master_web_port),
            "consumerGroup": "scale",
            "subscribe": topic.name,
            "sourceCount": "1",
        }
        reader = TubeBatchReader(parse_options(options))
        (task,) = reader.partitions()
        with _counted() as calls:
            rows = sum(batch.num_rows for batch in reader.read(task))
    if rows != _RANGES * _MESSAGES:
        raise RuntimeError(f"read {rows} of {_RANGES * _MESSAGES} messages")
    # The first range of a store may be searched for; the others tell what each costs.
    names = {name for name, _ in calls}
    return Counter({name: round(median(calls[name, number] for number in range(_RANGES))) for name in names})


@contextmanager
def _counted() -> Iterator[Counter[tuple[str, int]]]:
    """Requests by their name and partition."""
    calls: Counter[tuple[str, int]] = Counter()
    submit_many = Connection.submit_many

    def counted(connection: Connection, streams: Sequence[bytes]) -> Any:
        for stream in streams:
            asked = decode_request(stream)
            method = method_of(asked.method_id)
            assert method is not None
            request: Any = method.spec.request.FromString(asked.body)
            calls[_name(method, request), request.partitionId] += 1
        return submit_many(connection, streams)

    with mock.patch.object(Connection, "submit_many", counted):
        yield calls


def _name(method: Method, request: Any) -> str:
    """Taking a partition over and giving it back are one call, by its opType."""
    if method is not Method.PARTITION_REGISTER:
        return method.name.lower()
    return "register" if request.opType == OP_REGISTER else "unregister"


def table_commits(folder: Path, partitions: int, commits: int) -> TableCommits:
    """So many commits of all positions, all of them moved."""
    keys = [PartitionKey(1 + number % _BROKERS, "scale", number // _BROKERS) for number in range(partitions)]
    run = OffsetsTable(str(folder)).open_run(GroupKey("scale", ["scale"]), 1_000)
    # Offsets that differ as real ones do: files compress equal ones to nothing.
    rng = random.Random(1)
    ends = [rng.randrange(_MOST_ENTRIES) for _ in keys]
    times: list[float] = []
    sizes: list[tuple[int, int]] = []
    for _ in range(commits + 1):
        starts, ends = ends, [end + rng.randrange(1, _MOST_NEW_ENTRIES) for end in ends]
        progress = [
            PartitionProgress(
                key, end * INDEX_ENTRY_BYTES, end * INDEX_ENTRY_BYTES, 0, start * INDEX_ENTRY_BYTES, (), "modulo"
            )
            for key, start, end in zip(keys, starts, ends, strict=True)
        ]
        began = time.perf_counter()
        run.record(progress)
        times.append((time.perf_counter() - began) * 1000)
        sizes.append((_bytes(folder, "consumerGroup=*/*.parquet"), _bytes(folder / "_delta_log", "*.json")))
    (data, log), (last_data, last_log) = sizes[0], sizes[-1]
    return TableCommits(median(times[1:]), (last_data - data) // commits, (last_log - log) // commits)


def _bytes(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))
