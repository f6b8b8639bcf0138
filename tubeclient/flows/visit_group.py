"""A short stay in one of several groups, to see the layout of topics: who visits needs no group of its own."""

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
    """Register the first of `nodes`, each of another group, that its group's live clients leave room for; returns it.

    Clients of a group must agree on topics and filters, so other visitors of other topics are in the way for as long as
    they stay, some round trips: the groups are tried again for `patience_ms`. Raises the last GroupConflict then, and
    every other refusal at once.
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
