"""The input of one task of a batch: the ranges of one node of the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import InputPartition

from spark_source.plan.offset_rule import OffsetRule
from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey, StoreKey

__all__ = ["ReadTask"]


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """Ranges of one node, and their brokers. Sent to the executor; holds no password."""

    node_id: int
    ranges: Sequence[OffsetRange]
    """Read in order."""
    offset_rules: Mapping[StoreKey, OffsetRule]
    """How to know the offsets of messages, by store; UNKNOWN for stores without an entry."""
    brokers: tuple[BrokerInfo, ...]
    visit_token: int | None = field(default=None, compare=False, repr=False)
    """The master's visit token when the batch was planned, for brokers that check it."""

    store_sizes: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """How many partitions a store has, by broker id and topic."""

    def __getstate__(self) -> dict[str, Any]:
        """The ranges as columns: Spark pickles each non-builtin object with a Python function call, and there may be
        thousands of ranges."""
        columns = list(zip(*((*key, start, end) for key, start, end in self.ranges), strict=True))
        rules = [(*one, rule) for one, rule in self.offset_rules.items()]
        return {**vars(self), "ranges": columns, "offset_rules": rules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ranges = [
            OffsetRange._make((PartitionKey(*key), at, end)) for *key, at, end in zip(*state["ranges"], strict=True)
        ]
        rules = {StoreKey(*store): rule for *store, rule in state["offset_rules"]}
        vars(self).update({**state, "ranges": ranges, "offset_rules": rules})

    def broker_of(self, key: PartitionKey) -> BrokerInfo:
        """The broker of `key`."""
        return next(broker for broker in self.brokers if broker.broker_id == key.broker_id)

    def offset_rule_of(self, key: PartitionKey) -> OffsetRule:
        """How to know the offsets of the partition's messages."""
        return self.offset_rules.get(key.store, OffsetRule.UNKNOWN)
