"""The strategy that follows a written plan."""

from __future__ import annotations

from collections.abc import Sequence

from tubeclient.assignment.hints import NO_HINTS, Assignment, Hint, Hints, goes_by
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["config"]


@goes_by(Hint.PLAN)
def config(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign by `hints.plan`, the node id of every partition: RocketMQ's AllocateMessageQueueByConfig, for all nodes.

    ConfigurationError if there is no plan, or if it omits a partition, or names a partition that is not configured, or
    a node that does not exist.
    """
    plan = hints.plan
    if plan is None:
        raise ConfigurationError("assignment strategy config needs the hint plan: the node id of every partition")
    nodes: Assignment = [[] for _ in range(source_count)]
    for key in keys:
        node = plan.get(key)
        if node is None:
            raise ConfigurationError(f"assignment strategy config: the plan leaves out partition {key}")
        if not 0 <= node < source_count:
            raise ConfigurationError(
                f"assignment strategy config: the plan gives partition {key} to node {node}; with sourceCount "
                f"{source_count} there are nodes 0 to {source_count - 1}"
            )
        nodes[node].append(key)
    if len(plan) > len(keys):
        unknown = min(plan.keys() - set(keys))
        raise ConfigurationError(f"assignment strategy config: the plan names the unknown partition {unknown}")
    return nodes
