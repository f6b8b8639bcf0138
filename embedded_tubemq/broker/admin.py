"""The broker's HTTP calls, as functions from parameters to JSON. None needs a token.

The JSON has the form of TubeMQ's BrokerAdminServlet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.common.admin import AdminError, Parameters, failed, succeeded
from embedded_tubemq.storage.store import Store
from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_STORE_PARTITIONS, PartitionKey

__all__ = ["BrokerAdmin"]

UNKNOWN = -2


class BrokerAdmin:
    """The calls of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._calls: dict[str, Callable[[Parameters], dict[str, Any]]] = {
            "admin_query_pubinfo": self._pub_info,
            "admin_query_offset": self._offsets,
            "admin_get_booked_groupname": self._group_names,
            "admin_set_offset": self._set_offset,
            "admin_manual_set_current_offset": self._set_current_offset,
            "admin_clone_offset": self._clone_offset,
            "admin_rmv_offset": self._remove_offset,
        }

    def call(self, parameters: Parameters) -> dict[str, Any]:
        """Run the call that the parameter `method` names."""
        try:
            method = parameters.text("method")
            if method not in self._calls:
                raise AdminError(f"unknown method {method}")
            return self._calls[method](parameters)
        except AdminError as error:
            return failed(error)

    # Queries

    def _pub_info(self, parameters: Parameters) -> dict[str, Any]:
        data = []
        for topic in self._topics(parameters.texts("topicName")):
            # Leave out topics whose stores were never used, as TubeMQ does.
            items = [
                {"partitionId": partition, "offsetMin": first, "offsetMax": end, "dataMin": data, "dataMax": data_end}
                for store_id in range(topic.stores)
                if (store := self._broker.stores.existing(topic.name, store_id))
                for first, end, data, data_end in [(*store.bounds, store.data_min, store.data_max)]
                for partition in topic.partition_ids_of(store_id)
            ]
            if items:
                data.append({"topicName": topic.name, "offsetInfo": items, "itemCount": len(items)})
        return succeeded("Success!", dataSet=data, dataCount=len(data))

    def _offsets(self, parameters: Parameters) -> dict[str, Any]:
        groups, topics = parameters.texts("groupName"), parameters.texts("topicName")
        data = []
        for group in self._booked_groups(groups):
            info = []
            for topic in self._topics(topics or self._booked_topics(group)):
                if topic.name in self._booked_topics(group):
                    items = [
                        self._offset_json(Cursor(group, topic.name, partition)) for partition in topic.partition_ids()
                    ]
                    info.append({"topicName": topic.name, "offsets": items, "partCount": len(items)})
            data.append({"groupName": group, "subInfo": info, "topicCount": len(info)})
        return succeeded("Success!", dataSet=data, totalCnt=len(data))

    def _offset_json(self, cursor: Cursor) -> dict[str, int]:
        committed = self._broker.offsets.committed(cursor)
        reader = self._broker.ownership.owner(cursor)
        store = self._broker.stores.existing(cursor.topic, cursor.partition_id // MAX_STORE_PARTITIONS)
        read_to = reader.data_position if reader and reader.data_position >= 0 else UNKNOWN
        return {
            "partitionId": cursor.partition_id,
            "curOffset": UNKNOWN if committed is None else committed,
            "flightOffset": UNKNOWN if committed is None else self._broker.offsets.in_flight(cursor),
            "curDataOffset": read_to,
            "offsetLag": UNKNOWN if committed is None or store is None else store.max_offset - committed,
            "dataLag": UNKNOWN if read_to < 0 or store is None else store.data_max - read_to,
            "offsetMax": UNKNOWN if store is None else store.max_offset,
            "dataMax": UNKNOWN if store is None else store.data_max,
        }

    # Changes

    def _set_offset(self, parameters: Parameters) -> dict[str, Any]:
        groups = parameters.texts("groupName", required=True)
        parameters.text("modifyUser")
        wanted: dict[tuple[str, int], int] = {}
        if parameters.switch("manualSet"):
            wanted = self._manual_offsets(parameters.text("offsetJsonInfo"))
        else:
            for topic in self._topics(parameters.texts("topicName", required=True)):
                for partition in topic.partition_ids():
                    wanted[topic.name, partition] = self._store(topic.name, partition).max_offset
        self._reset(groups, wanted)
        return succeeded()

    def _set_current_offset(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        offset = parameters.number("manualOffset")
        cursor, store = self._cursor_and_store(parameters)
        if not store.min_offset <= offset <= store.max_offset:
            raise AdminError(f"manualOffset {offset} is not in [{store.min_offset}, {store.max_offset}]")
        former = self._broker.offsets.reset(cursor, offset, store.bounds)
        return succeeded(oldOffset=former)

    def _clone_offset(self, parameters: Parameters) -> dict[str, Any]:
        source = parameters.text("sourceGroupName")
        targets = parameters.texts("targetGroupName", required=True)
        topics = parameters.texts("topicName")
        parameters.text("modifyUser")
        wanted = {
            (cursor.topic, cursor.partition_id): self._broker.offsets.committed(cursor) or 0
            for cursor in self._broker.offsets.cursors()
            if cursor.group == source
            and (not topics or cursor.topic in topics)
            and self._has_partition(cursor.topic, cursor.partition_id)  # positions outlive their topic
        }
        if not wanted:
            raise AdminError(f"group {source} has no offsets for these topics on this broker")
        self._reset(targets, wanted)
        return succeeded()

    def _remove_offset(self, parameters: Parameters) -> dict[str, Any]:
        groups, topics = parameters.texts("groupName", required=True), parameters.texts("topicName")
        parameters.text("modifyUser")
        for cursor in self._broker.offsets.cursors():
            if cursor.group in groups and (not topics or cursor.topic in topics):
                self._broker.offsets.forget(cursor)
        return succeeded(data=[])

    def _manual_offsets(self, text: str) -> dict[tuple[str, int], int]:
        try:
            given = {PartitionKey.parse(key): _whole(value) for key, value in json.loads(text).items()}
        except (ConfigurationError, ValueError, AttributeError, RecursionError) as error:
            raise AdminError(f"offsetJsonInfo is not {{'brokerId:topic:partitionId': offset, ...}}: {error}") from error
        wanted = {
            (key.topic, key.partition_id): offset
            for key, offset in given.items()
            if key.broker_id == self._broker.broker_id and self._broker.catalogue.topic(key.topic)
        }
        if not wanted:
            raise AdminError("offsetJsonInfo names no partition of this broker")
        return wanted

    def _reset(self, groups: list[str], wanted: dict[tuple[str, int], int]) -> None:
        """Set the positions of all groups; AdminError, and none is set, if a partition is unknown."""
        bounds = {place: self._store(*place).bounds for place in wanted}
        for group in groups:
            for (topic, partition), offset in wanted.items():
                self._broker.offsets.reset(Cursor(group, topic, partition), offset, bounds[topic, partition])

    # Look-ups

    def _topics(self, names: Iterable[str]) -> list[Any]:
        wanted = set(names)
        return [topic for topic in self._broker.catalogue.topics() if not wanted or topic.name in wanted]

    def _group_names(self, parameters: Parameters) -> dict[str, Any]:
        if parameters.switch("divide", False):
            raise AdminError("this broker does not tell which groups are online; ask without divide")
        names = self._booked_groups([])
        whole = [{"type": "all", "groupName": names, "groupCount": len(names)}]
        return succeeded("Success!", dataSet=whole, dataCount=1)

    def _booked_groups(self, names: list[str]) -> list[str]:
        booked = sorted({cursor.group for cursor in self._broker.offsets.cursors()})
        return [group for group in booked if not names or group in names]

    def _booked_topics(self, group: str) -> set[str]:
        return {cursor.topic for cursor in self._broker.offsets.cursors() if cursor.group == group}

    def _cursor_and_store(self, parameters: Parameters) -> tuple[Cursor, Store]:
        cursor = Cursor(parameters.text("groupName"), parameters.text("topicName"), parameters.number("partitionId"))
        return cursor, self._store(cursor.topic, cursor.partition_id)

    def _has_partition(self, topic: str, partition: int) -> bool:
        config = self._broker.catalogue.topic(topic)
        return config is not None and config.has_partition(partition)

    def _store(self, topic: str, partition: int) -> Store:
        if not self._has_partition(topic, partition):
            raise AdminError(f"there is no partition {topic}:{partition} on this broker")
        return self._broker.stores.of_partition(topic, partition)


def _whole(value: object) -> int:
    """A number of JSON, or a text with one. ValueError for anything else."""
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"{value!r} is not a whole number")
