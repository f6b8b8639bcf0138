"""The life of a group's membership: register the nodes, keep them alive, follow the cluster's layout, leave."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tubeclient.errors import (
    GroupConflict,
    NodeIdConflict,
    SourceCountConflict,
    StatusError,
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

__all__ = ["HEARTBEAT_INTERVAL_MS", "MASTER_LEASE_MS", "MembershipWishes", "Waiting", "hold_group", "join_group"]

HEARTBEAT_INTERVAL_MS = 13_000
"""As Apache's clients beat."""

MASTER_LEASE_MS = 30_000
"""After so long without a heartbeat a master forgets a client (consumerHeartbeatTimeoutMs)."""

_JOIN_RETRY_MS = 1_000
_CONFLICTS = (GroupConflict, SourceCountConflict, NodeIdConflict)


@dataclass
class MembershipWishes:
    """What the owner of a membership wants of it; read by the flow each time it wakes."""

    leave: bool = False
    held: Mapping[int, Sequence[PartitionKey]] = field(default_factory=dict)
    """Node id to the partitions that node was dealt; the heartbeats tell the master."""
    refresh: bool = False
    """Look at the layout again now."""
    topics: tuple[str, ...] | None = None
    """Read these topics instead; the same as now where None."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Emitted once while the nodes are still held by somebody else, who may be dead: `error` is the master's answer."""

    error: TubeError


def join_group(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    cache: MetadataCache,
    rng: random.Random,
    *,
    patience_ms: float,
    wishes: MembershipWishes | None = None,
    passing: tuple[type[StatusError], ...] = (SourceCountConflict, NodeIdConflict),
) -> Flow[ClusterView]:
    """Register all nodes and return the cluster's view; on failure none stays registered.

    A run that was killed holds its nodes until the master's lease ends, so the conflicts that are `passing` are tried
    again for `patience_ms`. Node 0 comes first: of two runs that start together, the one that has it wins, the other
    holds nothing meanwhile. Ends early, with the last conflict, where `wishes.leave` is set.
    """
    deadline = (yield Now()) + patience_ms
    told = False
    while True:
        joined: list[GroupNode] = []
        try:
            for node in nodes:
                yield from register_node(masters, node, cache)
                joined.append(node)
            return (yield from query_view(masters, nodes[0], cache))
        except TubeError as error:
            yield from close_nodes(masters, joined)
            if not isinstance(error, passing) or (yield Now()) >= deadline or (wishes is not None and wishes.leave):
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
    """Join the group and stay in it until `wishes.leave`; emits every `ClusterView` it gets, the first one when all
    nodes are in, and the master's `GroupOrders` when they change.

    Passing faults are retried with growing waits while the master may still know the nodes; after its lease has run
    out without an answer they go on too (a cluster without its master still serves readers), and the nodes are
    registered again once it is back. Ends with the StatusError of a master that refuses a node, for example because
    another run took it over.
    """
    cache = MetadataCache()
    view = yield from join_group(masters, nodes, cache, rng, patience_ms=patience_ms, wishes=wishes)
    orders = cache.orders
    yield Emit(orders)
    yield Emit(view)
    now: float = yield Now()
    next_beat, next_refresh = now + HEARTBEAT_INTERVAL_MS, now + refresh_interval_ms
    reported = wishes.held
    failures = 0
    while True:
        yield Sleep(min(next_beat, next_refresh) - (yield Now()))
        if wishes.leave:
            yield from close_nodes(masters, nodes)
            return
        now = yield Now()
        try:
            if wishes.topics is not None and wishes.topics != nodes[0].topics:
                yield from close_nodes(masters, nodes)
                nodes = [replace(node, topics=wishes.topics) for node in nodes]
                cache.forget_topics()
                # The group's other clients read the old topics until they change over too.
                view = yield from join_group(
                    masters, nodes, cache, rng, patience_ms=math.inf, wishes=wishes, passing=_CONFLICTS
                )
                yield Emit(view)
            if wishes.held is not reported or now >= next_beat:
                reported = wishes.held
                for node in (yield from heartbeat_nodes(masters, nodes, cache, reported)):
                    yield from register_node(masters, node, cache)
                next_beat = now + HEARTBEAT_INTERVAL_MS
            if wishes.refresh or now >= next_refresh:
                wishes.refresh = False
                yield Emit((yield from query_view(masters, nodes[0], cache)))
                next_refresh = now + refresh_interval_ms
            if cache.orders != orders:
                orders = cache.orders
                yield Emit(orders)
            failures = 0
        except TubeError as error:
            if not error.retriable:
                yield from close_nodes(masters, nodes)
                raise
            next_beat = next_refresh = now + backoff_ms(failures, rng.random(), limit_ms=HEARTBEAT_INTERVAL_MS / 2)
            failures += 1
