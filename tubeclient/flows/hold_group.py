"""A group membership: register the nodes, keep them alive, follow the cluster's layout, leave."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tubeclient.errors import (
    GroupConflict,
    NodeIdConflict,
    SourceCountConflict,
    TopicNotDeployed,
    TubeError,
)
from tubeclient.flows.effects import Emit, Flow, Now, Sleep, backoff_ms
from tubeclient.flows.master import (
    GroupNode,
    MasterList,
    MetadataCache,
    close_nodes,
    heartbeat_nodes,
    query_view,
    register_node,
)
from tubeclient.keys import PartitionKey
from tubeclient.metadata import NO_TOPICS, ClusterView

_log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_MS = 13_000
"""The same as in Apache's clients."""

MASTER_LEASE_MS = 30_000
"""A master forgets a client after this time without a heartbeat (consumerHeartbeatTimeoutMs)."""

_JOIN_RETRY_MS = 1_000
_REPORT_MS = 60_000
"""Time between two log lines of a wait."""
_REPORT_INTERVAL_MS = 500
"""Partitions are connected one by one, perhaps a thousand of them. The master is not told of each."""

OWNED_BY_OTHERS = (GroupConflict, SourceCountConflict, NodeIdConflict)
"""Clients of the group stand in the way. They may be a dead run's, with other topics or nodes than its successor."""


@dataclass
class MembershipRequest:
    """What the owner of a membership asks for. The flow reads it each time it wakes."""

    leave: bool = False
    owned: Mapping[int, Sequence[PartitionKey]] = field(default_factory=dict)
    """The partitions that each node id was assigned, for the heartbeats."""
    view_requests: int = 0
    """How many looks at the layout the owner asked for. One more makes the flow look at once."""
    view_requests_done: int = 0
    """For the owner: the value of `looks` when the flow asked for the view that it emitted last."""
    fault: TubeError | None = None
    """For the owner: the error that keeps the flow from its next look. None while all is well."""
    topics: tuple[str, ...] | None = None
    """Read these topics instead; none: leave the group until there are some. None: no change."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Emitted before `node` is registered again, since the master has forgotten it."""

    node: GroupNode


def join_group(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    cache: MetadataCache,
    rng: random.Random,
    request: MembershipRequest,
    *,
    occupied_timeout_ms: float,
) -> Flow[ClusterView]:
    """Register all nodes and return the cluster's view. On failure none stays registered.

    A run that was killed holds its nodes until the master's lease ends, so conflicts with clients of the group are
    tried again for `occupied_timeout_ms`. Node 0 comes first: if two runs start together, the one that gets it wins,
    and the other one holds nothing meanwhile. With `request.leave`, or once it asks for other topics, the last conflict
    is raised at once.
    """
    begun: float = yield Now()
    reported_at = -math.inf
    while True:
        joined: list[GroupNode] = []
        try:
            for node in nodes:
                yield from register_node(masters, node, cache)
                joined.append(node)
            return (yield from query_view(masters, nodes[0], cache))
        except TubeError as error:
            yield from close_nodes(masters, joined)
            now: float = yield Now()
            is_over = request.leave or _wants_others(request, nodes) or now >= begun + occupied_timeout_ms
            if is_over or not isinstance(error, OWNED_BY_OTHERS):
                if isinstance(error, OWNED_BY_OTHERS):
                    seconds = occupied_timeout_ms / 1000
                    error.args = (
                        f"{error}. Gave up after {seconds:.0f} s: a dead run holds its nodes for "
                        f"{MASTER_LEASE_MS / 1000:.0f} s, a client of this process holds them until it is closed",
                    )
                raise
            if now >= reported_at + _REPORT_MS:
                reported_at = now
                _log.warning(
                    "consumerGroup %s cannot be joined yet (%s). Waiting up to %.0f s more: a dead run holds its nodes "
                    "for %.0f s after its last heartbeat",
                    nodes[0].group,
                    error.condition,
                    (begun + occupied_timeout_ms - now) / 1000,
                    MASTER_LEASE_MS / 1000,
                )
        yield Sleep(_JOIN_RETRY_MS * (0.75 + rng.random() / 2))


def hold_group(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    request: MembershipRequest,
    rng: random.Random,
    *,
    occupied_timeout_ms: float,
    refresh_interval_ms: float,
) -> Flow[None]:
    """Join the group and stay in it until `request.leave`. Emits every `ClusterView`, the first one when all nodes are
    registered, the master's `GroupOrders` when they change, and `Forgotten`.

    The layout is asked for every `refresh_interval_ms`, when the owner asks for it, and at once when an answer to a
    heartbeat or a registration brought another version of the lists. For other topics the nodes leave the group and
    join it again; a topic that is not there yet, or not any more, is waited for. The group's other clients must change
    over too, and may find out as late as by their next looks but one. A master has no group without topics, so without
    any nothing is registered, and the view is empty.

    Faults that may pass are tried again with growing waits, also after the master's lease has ended: a cluster without
    its master still serves readers. When the master is back, the nodes are registered again. Ends with the StatusError
    of a master that refuses a node, for example because another run took it over.
    """
    cache, view, joined = MetadataCache(), NO_TOPICS, False
    if request.topics is not None:
        nodes = [replace(node, topics=request.topics) for node in nodes]
    if nodes[0].topics:
        try:
            view = yield from join_group(masters, nodes, cache, rng, request, occupied_timeout_ms=occupied_timeout_ms)
            joined = True
        except TopicNotDeployed as error:
            if request.topics is None:
                raise
            _log.warning("a topic was removed during the join; waiting for it, or for others: %s", error)
    orders, versions = cache.orders, cache.versions
    yield Emit(orders)
    yield Emit(view)
    now: float = yield Now()
    next_beat, next_refresh = now + HEARTBEAT_INTERVAL_MS, now + refresh_interval_ms
    reported, report_moment = request.owned, now - _REPORT_INTERVAL_MS
    failures = 0

    def beat_moment() -> float:
        return next_beat if request.owned is reported else min(next_beat, report_moment + _REPORT_INTERVAL_MS)

    while True:
        yield Sleep(min(beat_moment(), next_refresh) - (yield Now()))
        if request.leave:
            yield from close_nodes(masters, nodes)
            return
        # Before the topics: an owner that changes topics and then asks for a look expects those topics.
        view_requests = request.view_requests
        try:
            if request.topics is not None and _wants_others(request, nodes):
                yield from close_nodes(masters, nodes)
                nodes, joined = [replace(node, topics=request.topics) for node in nodes], False
                cache.forget_topics()
            if not nodes[0].topics:
                request.view_requests_done, reported = view_requests, request.owned
                yield Emit(NO_TOPICS)
                next_beat = next_refresh = (yield Now()) + refresh_interval_ms
                continue
            if not joined:  # the master may still know those that left, until their lease ends
                timeout_ms = max(occupied_timeout_ms, MASTER_LEASE_MS + 3 * refresh_interval_ms)
                view = yield from join_group(masters, nodes, cache, rng, request, occupied_timeout_ms=timeout_ms)
                versions, joined = cache.versions, True
                yield Emit(view)
                next_beat = yield Now()  # the master has forgotten what they hold
            now = yield Now()
            if now >= beat_moment():
                if request.owned is not reported:
                    reported, report_moment = request.owned, now
                for node in (yield from heartbeat_nodes(masters, nodes, cache, reported)):
                    yield Emit(Forgotten(node))
                    yield from register_node(masters, node, cache)
                next_beat = now + HEARTBEAT_INTERVAL_MS
            if view_requests != request.view_requests_done or now >= next_refresh or cache.versions != versions:
                view = yield from query_view(masters, nodes[0], cache)
                request.view_requests_done, versions = view_requests, cache.versions
                yield Emit(view)
                next_refresh = now + refresh_interval_ms
            if cache.orders != orders:
                orders = cache.orders
                yield Emit(orders)
            failures, request.fault = 0, None
        except TubeError as error:
            if not joined and isinstance(error, OWNED_BY_OTHERS) and _wants_others(request, nodes):
                next_beat = yield Now()
                continue
            if not error.retriable and (joined or not isinstance(error, TopicNotDeployed)):
                yield from close_nodes(masters, nodes)
                raise
            now = yield Now()
            next_beat = next_refresh = now + backoff_ms(failures, rng.random(), limit_ms=HEARTBEAT_INTERVAL_MS / 2)
            report_moment = next_beat  # no report comes before that
            failures, request.fault = failures + 1, error


def _wants_others(request: MembershipRequest, nodes: Sequence[GroupNode]) -> bool:
    """Whether the owner asks for other topics than those of `nodes`."""
    return request.topics is not None and request.topics != nodes[0].topics


_FIRST_WAIT_MS = 25
_LONGEST_WAIT_MS = 1_000


def register_first(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    cache: MetadataCache,
    rng: random.Random,
    *,
    occupied_timeout_ms: float,
) -> Flow[GroupNode]:
    """Register the first of `nodes` that its group accepts, and return it. Each node is of another group.

    Clients of a group must agree on topics and filters, so visitors of other topics block a group while they stay, for
    some round trips. The groups are tried again for `occupied_timeout_ms`; then the last GroupConflict is raised. Every
    other refusal is raised at once.
    """
    deadline = (yield Now()) + occupied_timeout_ms
    attempt = 0
    while True:
        for node in nodes:
            try:
                yield from register_node(masters, node, cache)
                return node
            except GroupConflict as error:
                refusal = error
        if (yield Now()) >= deadline:
            raise refusal
        yield Sleep(backoff_ms(attempt, rng.random(), first_ms=_FIRST_WAIT_MS, limit_ms=_LONGEST_WAIT_MS))
        attempt += 1
