"""A group membership: register the nodes, keep them alive, follow the cluster's layout, leave."""

from __future__ import annotations

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
from tubeclient.metadata import ClusterView

HEARTBEAT_INTERVAL_MS = 13_000
"""The same as in Apache's clients."""

MASTER_LEASE_MS = 30_000
"""A master forgets a client after this time without a heartbeat (consumerHeartbeatTimeoutMs)."""

_JOIN_RETRY_MS = 1_000
_TELL_MS = 60_000
"""Time between two `Waiting` events."""
_REPORT_INTERVAL_MS = 500
"""Partitions are connected one by one, perhaps a thousand of them. The master is not told of each."""

HELD_BY_OTHERS = (GroupConflict, SourceCountConflict, NodeIdConflict)
"""Clients of the group stand in the way. They may be a dead run's, with other topics or nodes than its successor."""
_CHANGING_OVER = (TopicNotDeployed, *HELD_BY_OTHERS)


@dataclass
class MembershipWishes:
    """What the owner of a membership wants. The flow reads it each time it wakes."""

    leave: bool = False
    held: Mapping[int, Sequence[PartitionKey]] = field(default_factory=dict)
    """The partitions that each node id was assigned, for the heartbeats."""
    looks: int = 0
    """How many looks at the layout the owner asked for. One more makes the flow look at once."""
    looks_heard: int = 0
    """For the owner: the value of `looks` when the flow asked for the view that it emitted last."""
    fault: TubeError | None = None
    """For the owner: the error that keeps the flow from its next look. None while all is well."""
    topics: tuple[str, ...] | None = None
    """Read these topics instead. None: no change."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Emitted at once, and then every minute, while another client holds the nodes, which may be dead. Emitted once
    while the group's other clients read other topics. `error` is the master's answer, `left_ms` the time left to wait.
    """

    error: TubeError
    left_ms: float = math.inf


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Emitted before `node` is registered again, since the master has forgotten it."""

    node: GroupNode


def join_group(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    cache: MetadataCache,
    rng: random.Random,
    *,
    patience_ms: float,
    wishes: MembershipWishes | None = None,
) -> Flow[ClusterView]:
    """Register all nodes and return the cluster's view. On failure none stays registered.

    A run that was killed holds its nodes until the master's lease ends, so conflicts with clients of the group are
    tried again for `patience_ms`. Node 0 comes first: if two runs start together, the one that gets it wins, and the
    other one holds nothing meanwhile. With `wishes.leave`, the last conflict is raised at once.
    """
    deadline = (yield Now()) + patience_ms
    tell_at = 0.0
    while True:
        joined: list[GroupNode] = []
        try:
            for node in nodes:
                yield from register_node(masters, node, cache)
                joined.append(node)
            return (yield from query_view(masters, nodes[0], cache))
        except TubeError as error:
            yield from close_nodes(masters, joined)
            leaving = wishes is not None and wishes.leave
            now: float = yield Now()
            if leaving or not isinstance(error, HELD_BY_OTHERS) or now >= deadline:
                raise
            if not tell_at or now >= tell_at:
                yield Emit(Waiting(error, deadline - now))
                tell_at = now + _TELL_MS
        yield Sleep(_JOIN_RETRY_MS * (0.75 + rng.random() / 2))


def change_topics(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    cache: MetadataCache,
    rng: random.Random,
    wishes: MembershipWishes,
    topics: tuple[str, ...],
    *,
    patience_ms: float,
) -> Flow[tuple[Sequence[GroupNode], ClusterView]]:
    """Leave the group and join it for other topics. Returns the new nodes and the view.

    The group's other clients read the old topics until they change over too. So this is tried until they have, with the
    newest topics in `wishes`. If these nodes are all nodes of the group, there are no others to wait for. Then a client
    that holds one of them has taken the group over, or the master still remembers ourselves: after `patience_ms`, and
    at least its lease, the refusal is raised. With `wishes.leave`, the last refusal is raised at once. Every other
    fault is raised; calling it again is safe.
    """
    yield from close_nodes(masters, nodes)
    patient_until = (
        (yield Now()) + max(patience_ms, MASTER_LEASE_MS) if len(nodes) == nodes[0].source_count else math.inf
    )
    told = False
    while True:
        topics = wishes.topics or topics
        nodes = [replace(node, topics=topics) for node in nodes]
        cache.forget_topics()
        try:
            return nodes, (yield from join_group(masters, nodes, cache, rng, patience_ms=0))
        except TubeError as error:
            taken_over = not isinstance(error, TopicNotDeployed) and (yield Now()) >= patient_until
            if wishes.leave or taken_over or not isinstance(error, _CHANGING_OVER):
                raise
            if not told:
                yield Emit(Waiting(error))
                told = True
        yield Sleep(_JOIN_RETRY_MS * (0.75 + rng.random() / 2))


def hold_group(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    wishes: MembershipWishes,
    rng: random.Random,
    *,
    patience_ms: float,
    refresh_interval_ms: float,
) -> Flow[None]:
    """Join the group and stay in it until `wishes.leave`. Emits every `ClusterView`, the first one when all nodes are
    registered, the master's `GroupOrders` when they change, and `Forgotten`.

    The layout is asked for every `refresh_interval_ms`, when the owner wishes for it, and at once when an answer to a
    heartbeat or a registration brought another version of the lists.

    Faults that may pass are tried again with growing waits, also after the master's lease has ended: a cluster without
    its master still serves readers. When the master is back, the nodes are registered again. Ends with the StatusError
    of a master that refuses a node, for example because another run took it over.
    """
    cache = MetadataCache()
    view = yield from join_group(masters, nodes, cache, rng, patience_ms=patience_ms, wishes=wishes)
    orders, versions = cache.orders, cache.versions
    yield Emit(orders)
    yield Emit(view)
    now: float = yield Now()
    next_beat, next_refresh = now + HEARTBEAT_INTERVAL_MS, now + refresh_interval_ms
    reported, report_moment = wishes.held, now - _REPORT_INTERVAL_MS
    failures = 0

    def beat_moment() -> float:
        return next_beat if wishes.held is reported else min(next_beat, report_moment + _REPORT_INTERVAL_MS)

    while True:
        yield Sleep(min(beat_moment(), next_refresh) - (yield Now()))
        if wishes.leave:
            yield from close_nodes(masters, nodes)
            return
        # Before the topics: an owner that changes topics and then asks for a look expects those topics.
        looks = wishes.looks
        try:
            if wishes.topics is not None and wishes.topics != nodes[0].topics:
                nodes, view = yield from change_topics(
                    masters, nodes, cache, rng, wishes, wishes.topics, patience_ms=patience_ms
                )
                versions = cache.versions
                yield Emit(view)
                next_beat = yield Now()  # the master has forgotten what they hold
            now = yield Now()
            if now >= beat_moment():
                if wishes.held is not reported:
                    reported, report_moment = wishes.held, now
                for node in (yield from heartbeat_nodes(masters, nodes, cache, reported)):
                    yield Emit(Forgotten(node))
                    yield from register_node(masters, node, cache)
                next_beat = now + HEARTBEAT_INTERVAL_MS
            if looks != wishes.looks_heard or now >= next_refresh or cache.versions != versions:
                view = yield from query_view(masters, nodes[0], cache)
                wishes.looks_heard, versions = looks, cache.versions
                yield Emit(view)
                next_refresh = now + refresh_interval_ms
            if cache.orders != orders:
                orders = cache.orders
                yield Emit(orders)
            failures, wishes.fault = 0, None
        except TubeError as error:
            if not error.retriable:
                yield from close_nodes(masters, nodes)
                raise
            now = yield Now()
            next_beat = next_refresh = now + backoff_ms(failures, rng.random(), limit_ms=HEARTBEAT_INTERVAL_MS / 2)
            failures, wishes.fault = failures + 1, error


_FIRST_WAIT_MS = 25
_LONGEST_WAIT_MS = 1_000


def enter_any(
    masters: MasterList, nodes: Sequence[GroupNode], cache: MetadataCache, rng: random.Random, *, patience_ms: float
) -> Flow[GroupNode]:
    """Register the first of `nodes` that its group accepts, and return it. Each node is of another group.

    Clients of a group must agree on topics and filters, so visitors of other topics block a group while they stay, for
    some round trips. The groups are tried again for `patience_ms`; then the last GroupConflict is raised. Every other
    refusal is raised at once.
    """
    deadline = (yield Now()) + patience_ms
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
