"""The answers of a broker's web calls; `broker_id` is the queried broker."""

from __future__ import annotations

from typing import Final

from tubeclient.admin.answers.fields import Fields
from tubeclient.admin.answers.model import PartitionPosition
from tubeclient.keys import MAX_STORE_PARTITIONS, PartitionKey, StoreBounds, StoreFiles, StoreKey

__all__ = ["to_files", "to_former_position", "to_group_names", "to_positions"]

_MAX_INT32: Final = (1 << 31) - 1
_MIN_INT64: Final = -(1 << 63)


def to_files(answer: Fields, broker_id: int) -> dict[StoreKey, StoreFiles]:
    """admin_query_pubinfo. Without stores that were never written to."""
    found = {}
    for topic in answer.objects("dataSet"):
        name = topic.text("topicName")
        # There is a line for each partition, maybe thousands, and all lines of a store are equal.
        ids = topic.column("offsetInfo", "partitionId", high=_MAX_INT32)
        line_of = {partition_id // MAX_STORE_PARTITIONS: line for line, partition_id in enumerate(ids)}
        last_of = {partition_id // MAX_STORE_PARTITIONS: partition_id for partition_id in sorted(ids)}
        fields = ("offsetMin", "offsetMax", "dataMin")
        columns = (topic.column("offsetInfo", field, line_of.values()) for field in fields)
        for store_id, start, end, data_min in zip(line_of, *columns, strict=True):
            found[StoreKey(broker_id, name, store_id)] = StoreFiles(
                StoreBounds(start, end), data_min, last_of[store_id]
            )
    return found


def to_positions(answer: Fields, broker_id: int, group: str) -> list[PartitionPosition]:
    """admin_query_offset: the positions of `group`, sorted. The end of a store never written to is 0."""
    found = []
    for of_group in answer.objects("dataSet"):
        if of_group.text("groupName") != group:
            continue
        for topic in of_group.objects("subInfo"):
            name = topic.text("topicName")
            for item in topic.objects("offsets"):
                committed = item.known_number("curOffset")
                if committed is not None:
                    key = PartitionKey(broker_id, name, item.number("partitionId", high=_MAX_INT32))
                    in_flight = item.number("flightOffset", low=_MIN_INT64)
                    found.append(PartitionPosition(key, committed, in_flight, item.known_number("offsetMax") or 0))
    return sorted(found)


def to_group_names(answer: Fields) -> frozenset[str]:
    """admin_get_booked_groupname."""
    return frozenset(name for part in answer.objects("dataSet") for name in part.texts("groupName"))


def to_former_position(answer: Fields) -> int:
    """admin_manual_set_current_offset: the former position; 0 if there was none."""
    return answer.number("oldOffset")
