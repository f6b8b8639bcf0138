"""Looks at an offsets table and a cluster, again and again while somebody reads the page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from offsets_store import GroupKey, GroupProgress, OffsetsTable, SchemaMismatch
from offsets_store.errors import display_uri, scrub
from offsets_store.health import GroupPast, PastPosition
from spark_source.options.table_uris import limited
from tubeclient.admin import Admin, BrokerState, GroupMember
from tubeclient.admin.web import BrokerWeb
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey, TopicLayout
from tubeclient.web_port import own_web
from tubeclient_cli.common.offsets_tables import NO_TABLE, kept_group, progress_in

if TYPE_CHECKING:
    from tubeclient.settings import ClientSettings

__all__ = ["BrokerFacts", "ClusterFacts", "Commits", "Facts", "GroupFacts", "Source", "Watcher", "look_at_cluster"]

_T = TypeVar("_T")

_AT_ONCE: Final = 8
_MOST_COMMITS: Final = 120
"""So many points a chart has."""

Commits: TypeAlias = Mapping[int, Mapping[PartitionKey, PastPosition]]
"""By the time of a commit, in milliseconds since 1970: the positions that it wrote."""


class Source(NamedTuple):
    """One thing that is looked at, and what went wrong."""

    name: str
    place: str
    failure: str


class GroupFacts(NamedTuple):
    """One group and topic set."""

    progress: GroupProgress
    past: GroupPast | None
    """What the verdict goes by. None if the group's newest run reads other topics."""
    commits: Commits


class BrokerFacts(NamedTuple):
    """One broker of the master's list; `failure` says why it gave no answer."""

    state: BrokerState
    failure: str | None
    answered_in_ms: int | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What masters and brokers say."""

    brokers: tuple[BrokerFacts, ...]
    layouts: tuple[TopicLayout, ...]
    ends: Mapping[StoreKey, StoreBounds]
    """The bounds of the stores' indexes, of the brokers that answered. Stores never written to are missing."""
    members: Mapping[str, Sequence[GroupMember]]
    """The clients of each group that has any at the master."""

    @property
    def silent(self) -> frozenset[int]:
        """The brokers that should answer and did not."""
        return frozenset(broker.state.info.broker_id for broker in self.brokers if broker.failure is not None)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known at one moment. None: not looked at, or nothing came yet."""

    now_ms: int
    groups: tuple[GroupFacts, ...] | None
    groups_at_ms: int
    """When the offsets table was read: groups are judged as of then, as what they committed since is not known."""
    cluster: ClusterFacts | None = None
    failures: tuple[Source, ...] = ()
    waits: Mapping[tuple[str, PartitionKey, int], int] = field(default_factory=dict)
    """By group, partition and position: since when messages have been seen to wait there, in milliseconds since 1970.
    The page asks no broker for messages, so it does not know their times."""


def look_at_cluster(settings: ClientSettings, groups: Collection[str]) -> ClusterFacts:
    """Ask a master for brokers, topics and the clients of these groups, then each broker for its stores, over HTTP. A
    broker that does not answer is in the answer as such. Raises TubeError if no master answers, ConfigurationError for
    a web port of another cluster."""
    own_web(settings)
    admin = Admin(settings)

    def ask(broker: BrokerState) -> tuple[BrokerFacts, dict[StoreKey, StoreBounds]]:
        if not broker.is_in_service:
            return BrokerFacts(broker, None, None), {}
        began = time.monotonic()
        web = BrokerWeb(broker.info.broker_id, broker.web_address, settings.http_timeout_ms)
        try:
            files = web.files()
        except TubeError as error:
            gone = "" if broker.run_status == "running" else "; the master does not see it run either"
            return BrokerFacts(broker, f"{error}{gone}", None), {}
        took_ms = round((time.monotonic() - began) * 1000)
        return BrokerFacts(broker, None, took_ms), {store: found.index_bounds for store, found in files.items()}

    members = {group.name: admin.group(group.name).members for group in admin.groups() if group.name in groups}
    with ThreadPoolExecutor(_AT_ONCE, "tubeclient-dashboard-broker") as workers:
        answers = list(workers.map(ask, admin.brokers()))
    ends = {store: bounds for _, of_broker in answers for store, bounds in of_broker.items()}
    layouts = tuple(on.layout for topic in admin.topics() for on in topic.on_brokers)
    return ClusterFacts(tuple(facts for facts, _ in answers), layouts, ends, members)


class Watcher:
    """Looks at the table, and at the cluster unless `settings` is None, every `period_s` while `facts` is called. A
    look that hangs holds nobody up."""

    def __init__(
        self,
        offsets_table: str,
        storage_options: Mapping[str, str],
        settings: ClientSettings | None,
        *,
        groups: Sequence[str] = (),
        period_s: float = 5.0,
    ) -> None:
        self._uri = offsets_table
        self._table = OffsetsTable(offsets_table, limited(offsets_table, storage_options))
        self._storage_options = storage_options
        self._settings = settings
        self._wanted = sorted(set(groups))
        self._period_s = period_s
        self._pasts: dict[str, tuple[list[GroupProgress], GroupPast | None]] = {}
        """By group: its progress, and the past that goes with it."""
        self._commits: dict[GroupKey, dict[int, Mapping[PartitionKey, PastPosition]]] = {}
        self._facts = Facts(_now_ms(), None, 0)
        self._asked, self._first = threading.Event(), threading.Event()

    def start(self) -> None:
        """Begin to look, in a thread that does not keep the process alive."""
        threading.Thread(target=self._follow, name="tubeclient-dashboard-look", daemon=True).start()

    def facts(self, wait_s: float = 0.0) -> Facts:
        """The newest; has newer ones looked up. Waits at most `wait_s` for the first."""
        self._asked.set()
        self._first.wait(wait_s)
        return self._facts

    def _follow(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            self._facts = self.look()
            self._first.set()
            time.sleep(self._period_s)

    def look(self) -> Facts:
        """Look at everything once. What cannot be read is in `failures`."""
        failures: list[Source] = []

        def attempt(name: str, place: str, look: Callable[[], _T]) -> _T | None:
            try:
                return look()
            except Exception as error:  # whatever it is, the page says it and goes on
                text = scrub(str(error) or type(error).__name__, self._storage_options)
                failures.append(Source(name, place, text))
                return None

        before, now_ms = self._facts, _now_ms()
        table = display_uri(self._uri)
        groups, at_ms = attempt("offsets table", table, lambda: self._groups(failures, table)), now_ms
        if groups is None:
            groups, at_ms = before.groups, before.groups_at_ms
        cluster = None
        if (settings := self._settings) is not None:
            names = {group.progress.group.consumer_group for group in groups or ()}
            masters = ", ".join(settings.master_servers)
            cluster = attempt("cluster", masters, lambda: look_at_cluster(settings, names))
        ends = {} if cluster is None else cluster.ends
        waits: dict[tuple[str, PartitionKey, int], int] = {
            key: before.waits.get(key, now_ms)
            for group in groups or ()
            for row in group.progress.partitions
            if (held := ends.get(row.partition.store)) is not None and held.max_offset > row.next_offset
            for key in [(group.progress.group.consumer_group, row.partition, row.next_offset)]
        }
        return Facts(now_ms, groups, at_ms, cluster, tuple(failures), waits)

    def _groups(self, failures: list[Source], place: str) -> tuple[GroupFacts, ...]:
        there = self._table.groups()
        if not there and not self._table.exists():
            failures.append(Source("offsets table", place, NO_TABLE))
        found: list[GroupFacts] = []
        for name in self._wanted or there:
            if name not in there:
                continue
            try:
                found += self._group(name)
            except (ConfigurationError, SchemaMismatch, ValueError) as error:
                failures.append(Source("offsets table", place, f"group {name!r} is left out: {error}"))
        return tuple(found)

    def _group(self, name: str) -> list[GroupFacts]:
        newest = progress_in(self._table, kept_group(name))
        known = self._pasts.get(name)
        if known is None or known[0] != newest:
            # It reads some versions of the table, which without a new commit are the same.
            known = self._pasts[name] = newest, self._table.past(name)
        past = known[1]
        if past is not None:
            commits = self._commits.setdefault(past.group, {})
            for partition, seen in past.positions.items():
                for one in seen:
                    at_ms = round(one.at.timestamp() * 1000)
                    commits[at_ms] = {**commits.get(at_ms, {}), partition: one}
            for at_ms in sorted(commits)[:-_MOST_COMMITS]:
                del commits[at_ms]
        return [
            GroupFacts(
                progress,
                past if past is not None and past.group == progress.group else None,
                dict(self._commits.get(progress.group, {})),
            )
            for progress in newest
        ]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
