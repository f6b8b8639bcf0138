"""A short registration in one of several groups to see the layout of topics, without a group of one's own."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tubeclient.errors import GroupConflict
from tubeclient.flows.effects import Flow, Now, Sleep, backoff_ms
from tubeclient.flows.master import GroupNode, MasterList, MetadataCache, register_node

__all__ = ["enter_any"]

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
