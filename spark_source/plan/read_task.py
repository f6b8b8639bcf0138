"""What one task of a batch reads: the ranges of one node of the group, or a slice of them."""

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
    """Ranges of one node, and the brokers that hold them. Travels to the executor; holds no password."""

    node_id: int
    ranges: Sequence[OffsetRange]
    """Read one behind the other."""
    offset_rules: Mapping[StoreKey, OffsetRule]
    """What is known about the offsets of a store's messages; nothing of those that are not named."""
    brokers: tuple[BrokerInfo, ...]
    slice_number: int = 0
    """Counts the tasks of the node in this batch."""
    visit_token: int | None = field(default=None, compare=False, repr=False)
    """What brokers that check it want to see: the master's, as it was when the batch was planned."""

    store_sizes: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """How many partitions a store has, by broker id and topic."""

    def __getstate__(self) -> dict[str, Any]:
        """By column: Spark pickles each object that is not Python's own with a call of a Python function, and there may
        be thousands of ranges.
        """
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
        """The broker that holds `key`."""
        return next(broker for broker in self.brokers if broker.broker_id == key.broker_id)

    def offset_rule_of(self, key: PartitionKey) -> OffsetRule:
        """What is known about the offsets of the partition's messages."""
        return self.offset_rules.get(key.store, OffsetRule.UNKNOWN)
