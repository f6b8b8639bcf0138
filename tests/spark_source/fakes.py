"""A cluster in memory, for planning tests without sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from offsets_store import OffsetsTable
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.progress.latest_writer import Waits
from spark_source.progress.progress_table import ProgressTable, QueryProgress
from tests.spark_source.as_spark import JsonPlanner
from tubeclient.admin.broker_webs import BrokerWebs
from tubeclient.consumers.group import GroupMembership
from tubeclient.errors import ConnectError, NoMessageTime, TubeError
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, StoreBounds, StoreKey, TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup, OffsetSnapshot

ROW = INDEX_ENTRY_BYTES

STORE = StoreKey(1, "t", 0)
"""The one store of topic t."""


def key(text: str) -> PartitionKey:
    return PartitionKey.parse(text)


def options(**more: object) -> SourceOptions:
    """Options of group g on topic t with two nodes; None takes one of these away."""
    given = {"masterServers": "127.0.0.1:1", "consumerGroup": "g", "subscribe": "t", "sourceCount": 2, **more}
    return parse_options({name: str(value) for name, value in given.items() if value is not None})


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeCluster(TubeCluster):
    """One broker with topic `t`. Tests set `bounds` in rows, by store; every call is counted."""

    def __init__(self, stores: int = 1, partitions: int = 2, rows: tuple[int, int] = (0, 10)) -> None:
        self.layouts = [TopicLayout("t", 1, stores, partitions)]
        self.brokers = [BrokerInfo(1, "127.0.0.1", 8123)]
        self.rows = {StoreKey(1, "t", store): rows for store in range(stores)}
        self.next_rows: list[dict[StoreKey, tuple[int, int]]] = []
        """Answers to give first, one for each lookup."""
        self.layouts_when_asked: list[TopicLayout] | None = None
        """What the master answers to a new look, where that is not what it has shown already."""
        self.unreachable: TubeError | None = None
        """What a new look at the layout ends with."""
        self.silent: set[int] = set()
        """Brokers that do not answer."""
        self.positions: dict[PartitionKey, int] = {}
        self.set: list[dict[str, int]] = []
        """Positions in rows that the brokers were told, write by write."""
        self.books_unknown: TubeError | None = None
        self.books_fail: Exception | None = None
        self.brokers_go_on = threading.Event()
        """Brokers take their time while it is not set."""
        self.brokers_go_on.set()
        self.asked = 0
        """How often the brokers' books were looked at."""
        self.untold = threading.Event()
        """Brokers do not tell yet what they were told."""
        self.refusal: TubeError | None = None
        self.failure: TubeError | None = None
        self.timeless: NoMessageTime | None = None
        self._shown = ClusterView.of([], [])
        self.calls: list[str] = []
        self.reported: dict[int, list[PartitionKey]] = {}
        self.source_count = 0
        self.visit_token: int | None = None
        """What the last heartbeat brought."""

    def count(self, call: str) -> int:
        return self.calls.count(call)

    def shown(self) -> ClusterView:
        """The same as long as nothing changes, as a master's answers are."""
        now = ClusterView.of(self.brokers, self.layouts)
        if now != self._shown:
            self._shown = now
        return self._shown

    def fetch_view(self) -> ClusterView:
        self.calls.append("fetch_view")
        return self.shown()

    def membership(self, source_count: int) -> FakeMembership:
        self.calls.append("membership")
        self.source_count = source_count
        return FakeMembership(self)

    def lookup(self) -> FakeLookup:
        self.calls.append("lookup")
        return FakeLookup(self)

    def group_offsets(self) -> FakeBooks:
        self.calls.append("books")
        return FakeBooks(self)


class FakeMembership(GroupMembership):
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def join(self, occupied_timeout_ms: float = 0) -> ClusterView:
        self._cluster.calls.append(f"join {occupied_timeout_ms:.0f}")
        if self._cluster.refusal is not None:
            raise self._cluster.refusal
        return self.view()

    def view(self) -> ClusterView:
        if self._cluster.failure is not None:
            raise self._cluster.failure
        return self._cluster.shown()

    def refreshed_view(self, timeout_ms: float = 0) -> ClusterView:
        self._cluster.calls.append(f"ask the master for {timeout_ms:.0f}")
        if self._cluster.unreachable is not None:
            raise self._cluster.unreachable
        if self._cluster.layouts_when_asked is not None:
            self._cluster.layouts = self._cluster.layouts_when_asked
        return self.view()

    @property
    def visit_token(self) -> int | None:
        return self._cluster.visit_token

    def report(self, held: Mapping[int, Sequence[PartitionKey]]) -> None:
        self._cluster.calls.append("report")
        self._cluster.reported = {node: list(keys) for node, keys in held.items()}

    def close(self) -> None:
        self._cluster.calls.append("leave")


class FakeLookup(OffsetLookup):
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def bounds(self, view: ClusterView) -> dict[StoreKey, StoreBounds]:
        told = self.snapshot(view)
        for failure in told.silent.values():
            raise failure
        return dict(told.bounds)

    def snapshot(self, view: ClusterView) -> OffsetSnapshot:
        cluster = self._cluster
        cluster.calls.append("bounds")
        rows = cluster.next_rows.pop(0) if cluster.next_rows else cluster.rows
        told = [store for store in view.stores() if store.broker_id not in cluster.silent]
        return OffsetSnapshot(
            {store: StoreBounds(rows[store][0] * ROW, rows[store][1] * ROW) for store in told},
            {one: ConnectError(f"broker {one} is down") for one in cluster.silent & {*view.brokers}},
            {},
        )

    def group_positions(self, view: ClusterView, consumer_group: str) -> dict[PartitionKey, int]:
        self._cluster.calls.append(f"positions of {consumer_group}")
        for one in self._cluster.silent & {*view.brokers}:
            raise ConnectError(f"broker {one} is down")
        return {key: at for key, at in self._cluster.positions.items() if key.broker_id in view.brokers}

    def offsets_at(  # type: ignore[override]
        self,
        view: ClusterView,
        timestamps_ms: Mapping[PartitionKey, int],
        *,
        time_zone: str,
        bounds: Mapping[StoreKey, StoreBounds],
    ) -> dict[PartitionKey, int | None]:
        """One message a minute from 1970 on: the row of a timestamp is its minute."""
        self._cluster.calls.append(f"times of {time_zone}")
        if self._cluster.timeless is not None:
            raise self._cluster.timeless
        found: dict[PartitionKey, int | None] = {}
        for key, timestamp_ms in timestamps_ms.items():
            low, high = (offset // ROW for offset in bounds[key.store])
            row = max(low, timestamp_ms // 60_000)
            found[key] = row * ROW if row < high else None
        return found

    def close(self) -> None:
        self._cluster.calls.append("lookup closed")


class FakeBooks(BrokerWebs):
    """The brokers' books: `cluster.positions`, and every write in `cluster.set`."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def require(self, view: ClusterView, what_for: str) -> None:
        if self._cluster.books_unknown is not None:
            raise self._cluster.books_unknown

    def answered_positions(self, view: ClusterView, group: str) -> tuple[dict[PartitionKey, int], dict[int, TubeError]]:
        self._cluster.asked += 1
        silent: dict[int, TubeError] = {
            one: ConnectError(f"broker {one} is down") for one in self._cluster.silent & {*view.brokers}
        }
        kept = {} if self._cluster.untold.is_set() else self._cluster.positions
        return {key: at for key, at in kept.items() if key.broker_id not in silent}, silent

    def set_group_positions(
        self, view: ClusterView, group: str, offsets: Mapping[PartitionKey, int], user: str
    ) -> None:
        cluster = self._cluster
        assert threading.current_thread() is not threading.main_thread(), "the query's thread must not wait for this"
        assert cluster.brokers_go_on.wait(30)
        cluster.set.append({str(key): offset // ROW for key, offset in offsets.items()})
        if cluster.books_fail is not None:
            raise cluster.books_fail
        cluster.positions.update(offsets)


def as_json(positions: Mapping[str, int]) -> dict[str, Any]:
    """Offsets as Spark hands them over; positions in rows."""
    from spark_source.offsets.offsets import Offsets

    return Offsets.of({key(name): rows * ROW for name, rows in positions.items()}).to_dict()


def in_rows(partitions: Iterable[ReadTask]) -> dict[int, list[tuple[str, int, int]]]:
    """Partition, start and end in rows, by node."""
    return {
        one.node_id: [(str(read.partition), read.start // ROW, read.end // ROW) for read in one.ranges]
        for one in partitions
    }


class SettledTable(ProgressTable):
    """What a call recorded is in the table when it returns, if that works."""

    def record(self, position: QueryProgress) -> None:
        super().record(position)
        self._writer.call(lambda: None, 30)
        self.check()


def planner(cluster: FakeCluster, clock: FakeClock | None = None, **more: object) -> JsonPlanner:
    chosen = options(**more)
    return JsonPlanner(chosen, cluster, SettledTable(chosen), clock or FakeClock())


def planner_with(table: OffsetsTable | None, waits: Waits, cluster: FakeCluster, **more: object) -> JsonPlanner:
    """A planner whose offsets table is `table`, where the options name one, and waits for it as `waits` say."""
    chosen = options(**more)
    return JsonPlanner(chosen, cluster, ProgressTable(chosen, table, waits), FakeClock())


offset_values = st.integers(0, 8).map(lambda n: n * INDEX_ENTRY_BYTES)
"""Few values, so that neighbours often stand at the same offset."""

partition_keys = st.builds(
    lambda broker, topic, store, n: PartitionKey(broker, topic, store * 10_000 + n),
    st.sampled_from([1, 2, 10]),
    st.sampled_from(["a", "b-c", "ü"]),
    st.integers(0, 2),
    st.integers(0, 12),
)

offset_maps = st.dictionaries(partition_keys, offset_values, max_size=24)
