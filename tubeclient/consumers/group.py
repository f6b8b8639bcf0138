"""A consumer group's nodes, held at the master by one process."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tubeclient.access import masters_of
from tubeclient.arguments import whole_number
from tubeclient.consumers.topic_watch import TopicWatch
from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    TopicNotDeployed,
    TubeError,
)
from tubeclient.flows.hold_group import Forgotten, MembershipRequest, hold_group, register_first
from tubeclient.flows.master import UNDEFINED, GroupNode, GroupOrders, MetadataCache, close_nodes, query_view
from tubeclient.flows.reader import Authority
from tubeclient.identity import host_name, new_client_id
from tubeclient.keys import BrokerInfo, PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.names import checked_filters, checked_reader_groups, group_name, tag_name, topic_names
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import ConnectionPool, shared_pool
from tubeclient.net.runner import FlowRunner
from tubeclient.net.waiting import Bell, OneThread, Outcome
from tubeclient.settings import ClientSettings, checked_settings

_log = logging.getLogger(__name__)

_LEAVE_SECONDS = 5.0
_VIEW_TIMEOUT_MS = 30_000.0


class GroupMembership(ProcessBound):
    """Holds nodes of `consumer_group` at the master, over one connection and from one thread.

    While the nodes are held, the master refuses every other client that wants one of them (430) or another sourceCount
    (429). So a group has one reader at a time. The master's group page shows the partitions of each node as `report`
    gave them.

        >>> membership = GroupMembership(settings, "clicks_etl", ["clicks"], source_count=4)
        >>> membership.join().partitions()
        [PartitionKey(broker_id=1, topic='clicks', partition_id=0)]
        >>> membership.close()

    Args:
        topics: Names, or a TopicWatch. Then `join` and `view` look for other topics, and while there are none nothing
            is registered.
        source_count: How many nodes the group has. Below 0, this is one unnumbered node.
        filters: Tags to filter by, by topic.
        tags: The filter of topics that `filters` does not name, also of those that come later.
        node_ids: The nodes to hold, each from 0 to source_count - 1; None for all of them.
        on_event: Called on the thread that holds the nodes. It gets each new view, the master's orders, `Forgotten`,
            and the error that ends the membership.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        settings: ClientSettings,
        consumer_group: str,
        topics: Sequence[str] | TopicWatch,
        source_count: int,
        *,
        filters: Mapping[str, frozenset[str]] | None = None,
        tags: Iterable[str] = (),
        client_name: str = "Balance",
        refresh_interval_ms: float = 10_000,
        node_ids: Sequence[int] | None = None,
        on_event: Callable[[GroupOrders | ClusterView | Forgotten | TubeError], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._settings = checked_settings(settings)
        if whole_number(source_count, "sourceCount") == 0:
            raise ConfigurationError("sourceCount must be 1 or more, or below 0 for an unnumbered node; not 0")
        if source_count < 0:
            source_count, node_ids = UNDEFINED, [UNDEFINED]
        elif not all(0 <= whole_number(node_id, "nodeId") < source_count for node_id in node_ids or ()):
            raise ConfigurationError(
                f"nodeId must be from 0 to {source_count - 1} with sourceCount {source_count}; not {node_ids}"
            )
        self._watch = topics if isinstance(topics, TopicWatch) else None
        names = topic_names(() if isinstance(topics, TopicWatch) else topics)
        consumer_group, wanted = group_name(consumer_group), checked_filters(filters or {})
        if not names and self._watch is None:
            raise ConfigurationError(f"consumerGroup {consumer_group} needs at least one topic")
        self._refresh_interval_ms = refresh_interval_ms
        self._on_event = on_event
        self._nodes = [
            GroupNode(
                client_id=new_client_id(consumer_group, f"n{node_id}.{client_name}" if node_id >= 0 else client_name),
                group=consumer_group,
                topics=tuple(names),
                host_name=host_name(),
                source_count=source_count,
                node_id=node_id,
                filters=wanted,
                tags=frozenset(map(tag_name, tags)),
            )
            for node_id in (range(source_count) if node_ids is None else node_ids)
        ]
        self._masters = masters_of(settings)
        self._pool = ConnectionPool(settings)
        self._runner = FlowRunner(self._pool)
        self._request = MembershipRequest()
        self._joined: Outcome[None] = Outcome()
        self._lock = threading.Lock()  # not a Condition, which a KeyboardInterrupt may leave locked
        self._changed = Bell()
        self._view: ClusterView | None = None
        self._answered_requests = 0
        self._failure: TubeError | None = None
        self._thread: OneThread | None = None

    @property
    def client_ids(self) -> list[str]:
        """The client id of each node, in the order of `node_ids`."""
        return [node.client_id for node in self._nodes]

    @property
    def authority(self) -> Authority:
        """The client's identity for brokers."""
        return self._masters.authority

    @property
    def visit_token(self) -> int | None:
        """The token that the master last gave this member to show to brokers. See `RangeReader`."""
        return self._masters.authority.visit_token

    @property
    def node_ids(self) -> list[int]:
        """The node ids, in the order of `client_ids`; -2 for an unnumbered node."""
        return [node.node_id for node in self._nodes]

    def join(self, occupied_timeout_ms: float = 0) -> ClusterView:
        """Register all nodes. Afterwards a thread keeps them registered.

        Args:
            occupied_timeout_ms: How long GroupConflict (424 to 428), SourceCountConflict (429) and NodeIdConflict (430)
                are tried again. A run that died holds its nodes, for its topics, for up to 30 s more.

        Returns:
            The first view of the cluster.

        Raises:
            StatusError: The master refuses, with one of those, TopicNotDeployed or another.
            ConnectError: No master answers; the error names the masters.
        """
        self.check_process()
        if self._watch is not None:
            self.change_topics(self._watch.refresh())
        if self._thread is None:
            name = f"tubeclient-group-{self._nodes[0].group}"
            self._thread = OneThread(partial(self._hold, occupied_timeout_ms), name)
        self._thread.ensure()
        self._joined.result()  # every step of joining has its own deadline
        return self.view()

    def view(self) -> ClusterView:
        """Return the cluster as the master last showed it.

        Raises:
            TubeError: The error that ended the membership.
            ConnectionLost: `join` was not called yet.
        """
        self.check_process()
        if self._failure is not None:
            raise self._failure
        if self._view is None:
            raise ConnectionLost(f"consumerGroup {self._nodes[0].group} was not joined; call join() first")
        if self._watch is not None and (topics := self._watch.due()) != self._request.topics:
            self.change_topics(topics)
        return self._view

    def request_view(self) -> int:
        """Ask the master again without waiting. `on_event` gets the new view, and `view` returns it.

        Returns:
            The number of this request.
        """
        self.check_process()
        with self._lock:
            self._request.view_requests += 1
            wanted = self._request.view_requests
        self._runner.wake()
        return wanted

    def refreshed_view(self, timeout_ms: float = _VIEW_TIMEOUT_MS) -> ClusterView:
        """Ask the master again and return the new view. The answer to an earlier request does not count.

        Raises:
            DeadlineExceeded: No answer came within `timeout_ms`. The error has the fault, if there was one.
        """
        self.view()
        if self._watch is not None:
            self.change_topics(self._watch.refresh())
        wanted = self.request_view()
        if not self._changed.wait_for(
            self._lock, lambda: self._answered_requests >= wanted or self._failure is not None, timeout_ms / 1000
        ):
            fault = self._request.fault
            raise DeadlineExceeded(
                f"no master returned a layout within {timeout_ms:.0f} ms{'' if fault is None else f': {fault}'}"
            ) from fault
        return self.view()

    def report(self, owned: Mapping[int, Sequence[PartitionKey]]) -> None:
        """Tell the master with the next heartbeat which partitions each node id was assigned."""
        self.check_process()
        if owned != self._request.owned:
            self._request.owned = dict(owned)
            self._runner.wake()

    def change_topics(self, topics: Sequence[str]) -> None:
        """Read other topics from now on. The nodes leave the group and join it again; then the view changes."""
        self.check_process()
        self._request.topics = tuple(topic_names(topics))
        self._runner.wake()

    def close(self) -> None:
        """Release the nodes. Another run can have them at once."""
        if self.inherited:
            return
        self._request.leave = True
        self._runner.wake()
        if self._thread is not None:
            self._thread.join(_LEAVE_SECONDS)
        self._pool.close()

    def _hold(self, occupied_timeout_ms: float) -> None:
        group = self._nodes[0].group
        flow = hold_group(
            self._masters,
            self._nodes,
            self._request,
            random.Random(),
            occupied_timeout_ms=occupied_timeout_ms,
            refresh_interval_ms=self._refresh_interval_ms,
        )
        try:
            for event in self._runner.iterate(flow):
                if isinstance(event, ClusterView):
                    with self._lock:
                        self._view, self._answered_requests = event, self._request.view_requests_done
                        self._changed.ring()
                self._on_event(event)
                if isinstance(event, ClusterView) and not self._joined.done():
                    self._joined.set_result(None)
            self._end(ClientClosed(f"the membership of consumerGroup {group} is closed; make a new one"))
        except TubeError as error:
            self._end(error)
        except BaseException as error:  # a thread that dies must not leave its callers waiting
            self._end(TubeError(f"staying in consumerGroup {group} failed: {error!r}"))
            raise

    def _end(self, failure: TubeError) -> None:
        with self._lock:
            self._failure = failure
            self._changed.ring()
        if not self._joined.done():
            self._joined.set_exception(failure)
        elif not self._request.leave:
            _log.error("the membership ended: %s", failure)
            self._on_event(failure)


def fetch_view(
    settings: ClientSettings,
    topics: Sequence[str],
    reader_groups: Sequence[str],
    filters: Mapping[str, frozenset[str]] | None = None,
) -> ClusterView:
    """Return the cluster's view without joining the user's group, by a short registration under a reader group.

    If live clients use a reader group for other topics (424 to 426), the next one is tried. If they use all of them,
    the groups are tried again for `retry_limit_ms` of the settings, because most of those clients are short looks too.

    Raises:
        GroupConflict: Live clients used all reader groups for other topics until then.
        TopicNotDeployed: The cluster does not have one of the topics.
    """
    names, wanted = tuple(topic_names(topics)), checked_filters(filters or {})
    masters = masters_of(checked_settings(settings))
    pool = ConnectionPool(settings)
    runner = FlowRunner(pool)
    visitors = [
        GroupNode(
            client_id=new_client_id(group, "view"),
            group=group,
            topics=names,
            host_name=host_name(),
            filters=wanted,
        )
        for group in checked_reader_groups(reader_groups)
    ]
    cache = MetadataCache()
    try:
        node = runner.run(
            register_first(masters, visitors, cache, random.Random(), occupied_timeout_ms=settings.retry_limit_ms)
        )
        try:
            return runner.run(query_view(masters, node, cache))
        finally:
            runner.run(close_nodes(masters, [node]))
    except TopicNotDeployed as error:
        # Not in the name of the reader group: nobody typed it.
        raise TopicNotDeployed(error.code, error.server_text, context=f"topics {', '.join(names)}") from None
    finally:
        pool.close()


def present_brokers(
    settings: ClientSettings, reader_groups: Sequence[str], brokers: Collection[BrokerInfo], topics: Sequence[str]
) -> list[BrokerInfo]:
    """Return `brokers`, which have `topics`, at their present addresses. The masters are asked only if a broker takes
    no connection at its old address. Brokers that they do not list, or all if no master answers, keep the old one.
    """
    try:
        for broker in brokers:
            shared_pool(settings).get(broker.address)
        return list(brokers)
    except TubeError as error:
        _log.info("broker %s cannot be reached, asking the masters for its address: %s", broker, error)
    # Without patience: the caller waits for the broker itself afterwards.
    hasty = replace(settings, retry_limit_ms=min(settings.retry_limit_ms, settings.rpc_timeout_ms))
    try:
        listed = fetch_view(hasty, topics, reader_groups).brokers
    except TubeError as error:
        _log.info("the masters do not list the brokers: %s", error)
        return list(brokers)
    return [listed.get(broker.broker_id, broker) for broker in brokers]
