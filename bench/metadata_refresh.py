"""What it costs to follow the layout of a cluster with many partitions: the calls to the master, and each part of them.

A master sends its layout only to clients that have another version of it. So a refresh is measured twice: if nothing
changed, and if a topic was created just before, so that the whole list is sent. The list has one number for each topic
on each broker, however many partitions there are. So there are two shapes, the cheapest and the most expensive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from bench.embedded_process import embedded_tubemq
from bench.lines import HEADING, times_line
from embedded_tubemq import DEFAULT_TOKEN, TopicConfig
from tubeclient import Admin, ClientSettings, PullConsumer, assign
from tubeclient.assignment import NO_HINTS
from tubeclient.flows.master import MetadataCache
from tubeclient.group import GroupMembership
from tubeclient.members import Sharing
from tubeclient.metadata import ClusterView
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.strings import encode_consumer_layouts

__all__ = ["SHAPES", "Shape", "measure_refresh"]

_BROKERS = 10
_GROUP = "bench_refresh"
_MEMBERS = 3
_STRATEGIES = ("modulo", "averagely", "hash_modulo", "consistent_hash")
"""Those that need no hints."""
_OFTEN_MS = 100
_SETTLE_SECONDS = 2.0
_SEEN_SECONDS = 30.0
_OK = 200


class Shape(NamedTuple):
    """How partitions lie on the brokers."""

    name: str
    store_partitions: int
    stores: int
    """Of each topic, at the most."""


SHAPES = (Shape("few topics", 10, 100), Shape("a topic for each partition of a broker", 1, 1))


def measure_refresh(shape: Shape, partitions: int, nodes: int, count: int) -> None:
    """Measure each thing `count` times, and print it."""
    topics = _topics(shape, partitions // _BROKERS)
    names = [topic.name for topic in topics]
    with embedded_tubemq(topics, _BROKERS) as settings, ExitStack() as opened:
        members = [GroupMembership(settings, _GROUP, names, -1) for _ in range(_MEMBERS)]
        for one in members:
            opened.callback(one.close)
            one.join()
        view = members[0].view()
        print(
            f"\n{len(view.partitions()):,} partitions of {len(topics)} topics on {_BROKERS} brokers, {shape.name}; "
            f"milliseconds, load {os.getloadavg()[0]:.2f}\n{HEADING}"
        )
        _measure("refresh, nothing changed", members[0].refreshed_view, count)
        admin, numbers = Admin(settings, modify_token=DEFAULT_TOKEN), iter(range(count))
        _measure(
            "refresh, the whole list comes anew",
            members[0].refreshed_view,
            count,
            before=lambda: admin.create_topic(f"another_{next(numbers)}"),
        )
        _measure_parts(view, nodes, count)
        _measure_consumer(settings, names, count)
        _report_all(members, settings)
        sharing = Sharing(settings, _GROUP, "modulo", NO_HINTS)
        _measure("look at the members, who hold them all", lambda: sharing.look(members[0].client_ids[0]), count)


def _measure_parts(view: ClusterView, nodes: int, count: int) -> None:
    answer = _answer(view)
    data = answer.SerializeToString()
    print(f"of which, {len(data):,} bytes of answer:")
    _measure("  parse it", lambda: MetadataCache().take(master_pb2.GetPartMetaResponseM2C.FromString(data)), count)
    _measure(
        "  view of it, its partitions sorted",
        lambda: ClusterView.of(view.brokers.values(), view.layouts).partitions(),
        count,
    )
    keys = view.partitions()
    _measure("  which of them take readers", lambda: {key: view.is_subscribable(key) for key in keys}, count)
    for name in _STRATEGIES:
        _measure(f"  assign them to {nodes} nodes, {name}", lambda name=name: assign(name, keys, nodes), count)  # type: ignore[misc]


def _measure_consumer(settings: ClientSettings, names: list[str], count: int) -> None:
    """The CPU time of a consumer that follows the layout and holds nothing; a refresh each 100 ms."""
    with PullConsumer(
        settings, "bench_consumer", names, source_count=-1, strategy=lambda _: [], metadata_interval_ms=_OFTEN_MS
    ):
        time.sleep(_SETTLE_SECONDS)
        cpu_started = time.process_time()
        time.sleep(count * _OFTEN_MS / 1000)
        cpu_ms = (time.process_time() - cpu_started) * 1000
    print(f"a PullConsumer's refresh, nothing changed{'':<30}   CPU {cpu_ms / count:.2f}", flush=True)


def _measure(name: str, work: Callable[[], object], count: int, *, before: Callable[[], object] | None = None) -> None:
    """Time it, `before` not counted, and print the times and the CPU time of all threads of this process."""
    times: list[float] = []
    cpu = 0.0
    for _ in range(count):
        if before is not None:
            before()
        started, cpu_started = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - started) * 1000)
        cpu += time.process_time() - cpu_started
    print(f"{times_line(name, times)}   CPU {cpu * 1000 / count:.2f}", flush=True)


def _answer(view: ClusterView) -> master_pb2.GetPartMetaResponseM2C:
    """As the master gave it to who knew nothing."""
    return master_pb2.GetPartMetaResponseM2C(
        errCode=_OK,
        errMsg="OK!",
        brokerConfigId=1,
        brokerConfigList=map(str, view.brokers.values()),
        topicMetaInfoId=1,
        topicMetaInfoList=encode_consumer_layouts(view.layouts),
    )


def _report_all(members: list[GroupMembership], settings: ClientSettings) -> None:
    """Let the members report that they hold all partitions, and wait until the master shows it."""
    keys = members[0].view().partitions()
    for one, share in zip(members, assign("modulo", keys, len(members)), strict=True):
        one.report({one.node_ids[0]: share})
    deadline = time.monotonic() + _SEEN_SECONDS
    while sum(len(member.partitions) for member in Admin(settings).group(_GROUP).members) < len(keys):
        if time.monotonic() >= deadline:
            raise RuntimeError(f"the master did not show within {_SEEN_SECONDS:g} s who holds what")
        time.sleep(0.1)


def _topics(shape: Shape, partitions: int) -> list[TopicConfig]:
    """Topics of so many partitions on each broker."""
    stores = max(1, partitions // shape.store_partitions)
    return [
        TopicConfig(f"topic_{first:05}", stores=min(shape.stores, stores - first), partitions=shape.store_partitions)
        for first in range(0, stores, shape.stores)
    ]
