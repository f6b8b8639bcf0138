"""Columns of the rows that are the same for a whole partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tubeclient.keys import PartitionKey

__all__ = ["OF_PARTITIONS"]

OF_PARTITIONS: Final[Mapping[str, Callable[[PartitionKey], str | int]]] = {
    "topic": lambda key: key.topic,
    "partitionKey": str,
    "brokerId": lambda key: key.broker_id,
    "partition": lambda key: key.partition_id,
}
"""Their values, which are never null; in the order of the rows' columns, which they begin."""
