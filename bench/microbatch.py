"""What a micro-batch costs besides reading: the source's own share of it, an idle query's calls, a worker's memory.

The source is driven as Spark drives it, by the same calls in the same order, but without Spark: latestOffset,
reportLatestOffset, commit of the batch before, partitions; offsets go through JSON and partitions through pickle, as
they do there, which is measured apart. Garbage is collected as in the planner's process. `embedded_tubemq` runs in a
process of its own; all stores get messages between any two batches. There is no offsets table. How long the broker took
to tell its offsets is a line of its own: it is in latestOffset, but not the source's doing.

An idle query is asked for its latest offset each 11 ms, as Spark does under the default trigger, and the calls that
reach each server are counted.

A worker's memory is the peak of a new Python process that reads the whole backlog as one task.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable

from bench.embedded_process import embedded_tubemq
from bench.lines import HEADING, times_line
from embedded_tubemq import TopicConfig
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from spark_source.stream.batch_reader import TubeBatchReader
from spark_source.stream.planner_process import collect_seldom
from spark_source.stream.stream_reader import TubeStreamReader
from tubeclient import ClientSettings, Producer
from tubeclient.net import http
from tubeclient.net.connection import Connection

__all__ = ["main"]

_GOALS_MS = {100: 10.0, 10_000: 50.0}
_IDLE_TRIGGER_SECONDS = 0.011
_GOAL_IDLE_CALLS = 2.0
_GOAL_WORKER_MB = 300.0
_TOPIC_STORES = 100
_SOURCE_COUNT = 16

_CALLS = ("latestOffset", "reportLatestOffset", "commit", "partitions", "JSON and pickle")
_ANSWER = "  of which the broker's web answer"
_SHARE = ("latestOffset", "commit", "partitions")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = _parser().parse_args(arguments)
    collect_seldom()
    for count in options.partitions:
        _planning(count, options)
    for messages in options.backlog:
        _worker_memory(messages, options.bytes)
    return 0


def _planning(partitions: int, options: argparse.Namespace) -> None:
    topics = _topics(partitions, options.store_partitions)
    with embedded_tubemq(topics) as settings, Producer(settings) as producer:
        names = [topic.name for topic in topics]
        producer.publish(names)
        reader = TubeStreamReader(_options(settings, f"planning_{partitions}", names))
        try:
            print(
                f"\n{partitions:,} partitions, {options.store_partitions} to a store, {options.batches} batches; "
                "milliseconds"
            )
            _send_to_all(producer, topics)
            times = _batches(reader, producer, topics, options.batches)
            print(HEADING)
            for call in (*_CALLS, _ANSWER):
                print(times_line(call, times[call]))
            share = [sum(one) for one in zip(*(times[call] for call in _SHARE), strict=True)]
            goal = _GOALS_MS.get(partitions)
            print(times_line(" + ".join(_SHARE), share, goal))
            own = [whole - answer for whole, answer in zip(share, times[_ANSWER], strict=True)]
            print(times_line("  without the broker's web answer", own, goal))
            _idle(reader, settings, options.idle_seconds)
        finally:
            reader.stop()


def _batches(
    reader: TubeStreamReader, producer: Producer, topics: Sequence[TopicConfig], count: int
) -> Mapping[str, list[float]]:
    """Milliseconds of each call, batch by batch. The first batch, which starts the planner, does not count."""
    times: dict[str, list[float]] = {call: [] for call in (*_CALLS, _ANSWER)}

    def timed(call: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        times[call].append((time.perf_counter() - started) * 1000)
        return result

    start = reader.initialOffset()
    for number in range(count + 1):
        _send_to_all(producer, topics)
        end = start
        while end == start:  # the planner looks at brokers twice a second at the most
            times["latestOffset"] = times["latestOffset"][:number]
            with _timed_answers() as answers_ms:
                end = timed("latestOffset", partial(reader.latestOffset, start, ReadAllAvailable()))
        times[_ANSWER].append(sum(answers_ms))
        timed("reportLatestOffset", reader.reportLatestOffset)
        timed("commit", partial(reader.commit, start))
        tasks = timed("partitions", partial(reader.partitions, start, end))
        start = timed("JSON and pickle", partial(_as_spark_sends, tasks, end))
    return {call: values[1:] for call, values in times.items()}


@contextmanager
def _timed_answers() -> Iterator[list[float]]:
    """Milliseconds of each web call, from the request until the whole answer is there."""
    times: list[float] = []
    fetch = http._fetch

    def timed_fetch(*arguments: Any) -> tuple[int, bytes]:
        started = time.perf_counter()
        try:
            return fetch(*arguments)
        finally:
            times.append((time.perf_counter() - started) * 1000)

    with mock.patch.object(http, "_fetch", timed_fetch):
        yield times


def _as_spark_sends(tasks: Sequence[object], end: dict[str, Any]) -> dict[str, Any]:
    for task in tasks:
        cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    offsets: dict[str, Any] = json.loads(json.dumps(end))
    return offsets


def _idle(reader: TubeStreamReader, settings: ClientSettings, seconds: float) -> None:
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with _counted_calls() as calls:
        triggers = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if reader.latestOffset(end, ReadAllAvailable()) is not end:
                raise RuntimeError("the query is not idle")
            triggers += 1
            time.sleep(_IDLE_TRIGGER_SECONDS)
    master = sum(calls.pop(address, 0) for address in settings.master_servers) / seconds
    broker = max(calls.values(), default=0) / seconds
    verdict = "reached" if broker <= _GOAL_IDLE_CALLS else "missed"
    print(
        f"idle for {seconds:g} s, {triggers / seconds:.0f} triggers a second: {broker:.1f} calls a second to the "
        f"broker, {master:.1f} to the master (heartbeats of {_SOURCE_COUNT} nodes); goal to a broker "
        f"{_GOAL_IDLE_CALLS:g}: {verdict}"
    )


@contextmanager
def _counted_calls() -> Iterator[Counter[str]]:
    """Counts what goes to each server's address, over either protocol."""
    calls: Counter[str] = Counter()
    submit_many = Connection.submit_many

    def counted_submit(connection: Connection, streams: Sequence[bytes]) -> Any:
        calls[connection.address] += 1
        return submit_many(connection, streams)

    def counted_query(address: str, *arguments: Any, **parameters: Any) -> Any:
        calls[address] += 1
        return http.query_broker(address, *arguments, **parameters)

    with (
        mock.patch.object(Connection, "submit_many", counted_submit),
        mock.patch("tubeclient.admin.broker.query_broker", counted_query),
    ):
        yield calls


def _worker_memory(messages: int, message_bytes: int) -> None:
    topic = TopicConfig("backlog", stores=2, partitions=4)
    with embedded_tubemq([topic]) as settings:
        with Producer(settings, max_in_flight=2_000) as producer:
            producer.publish([topic.name])
            for first in range(0, messages, 1_000):
                bodies = [b"%0*d" % (message_bytes, number) for number in range(first, min(first + 1_000, messages))]
                producer.submit_many(topic.name, bodies)
            producer.flush()
        options = _options(settings, "memory", [topic.name], sourceCount="1")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as worker:
            rows, before_mb, peak_mb = worker.submit(_read_all, options).result()
    if rows != messages:
        raise RuntimeError(f"the worker read {rows} of {messages} messages")
    verdict = "reached" if peak_mb < _GOAL_WORKER_MB else "missed"
    print(
        f"\na worker that reads {messages:,} messages of {message_bytes:,} bytes "
        f"({messages * message_bytes / 1e6:,.0f} MB) in one task: {peak_mb:.0f} MB at the most, {before_mb:.0f} "
        f"before; goal under {_GOAL_WORKER_MB:.0f}: {verdict}"
    )


def _read_all(options: SourceOptions) -> tuple[int, float, float]:
    """Rows, and the process's peak of memory in MB before and after reading them."""
    reader = TubeBatchReader(options)
    (task,) = reader.partitions()
    before = _peak_mb()
    rows = sum(batch.num_rows for batch in reader.read(task))
    return rows, before, _peak_mb()


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _topics(partitions: int, store_partitions: int) -> list[TopicConfig]:
    stores = max(1, partitions // store_partitions)
    return [
        TopicConfig(f"planning{first}", stores=min(_TOPIC_STORES, stores - first), partitions=store_partitions)
        for first in range(0, stores, _TOPIC_STORES)
    ]


def _send_to_all(producer: Producer, topics: Sequence[TopicConfig]) -> None:
    """A message to each partition of all topics: the producer takes them in turn."""
    for topic in topics:
        producer.submit_many(topic.name, [b"message"] * topic.stores * topic.partitions)
    producer.flush()


def _options(settings: ClientSettings, group: str, topics: Sequence[str], **more: str) -> SourceOptions:
    return parse_options(
        {
            "masterServers": ",".join(settings.master_servers),
            "masterWebPort": str(settings.master_web_port),
            "consumerGroup": group,
            "subscribe": ",".join(topics),
            "startingOffsets": "earliest",
            "sourceCount": str(_SOURCE_COUNT),
            **more,
        }
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.microbatch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--partitions", type=int, nargs="*", default=list(_GOALS_MS), help="numbers of partitions (%(default)s)"
    )
    parser.add_argument(
        "--store-partitions",
        type=int,
        default=10,
        help="partitions of each store (%(default)s); a broker opens two "
        "files for each store, and few systems let it open more than 20 000",
    )
    parser.add_argument("--batches", type=int, default=60, help="counted batches of each (%(default)s)")
    parser.add_argument("--idle-seconds", type=float, default=5.0, help="how long to idle (%(default)s)")
    parser.add_argument(
        "--backlog", type=int, nargs="*", default=[50_000, 400_000], help="messages a worker reads (%(default)s)"
    )
    parser.add_argument("--bytes", type=int, default=1_000, help="length of those messages (%(default)s)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
