"""The broker's HTTP calls, as functions from parameters to JSON. None needs a token.

The JSON has the form of TubeMQ's BrokerAdminServlet, with the fields that Admin reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.common.admin import AdminError, Parameters, failed, succeeded
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.storage.store import Store
from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_STORE_PARTITIONS, PartitionKey

__all__ = ["BrokerAdmin"]

UNKNOWN = -2


class BrokerAdmin:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._calls: dict[str, Callable[[Parameters], dict[str, Any]]] = {
            "admin_query_pubinfo": self._pub_info,
            "admin_query_offset": self._offsets,
            "admin_get_booked_groupname": self._group_names,
            "admin_set_offset": self._set_offsets,
            "admin_manual_set_current_offset": self._set_current_offset,
        }

    def call(self, parameters: Parameters) -> dict[str, Any]:
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
        for topic in self._topics(parameters):
            # Leave out topics whose stores were never used, as TubeMQ does.
            items = [
                {"partitionId": partition, "offsetMin": first, "offsetMax": end, "dataMin": data_min}
                for store_id in range(topic.stores)
                if (store := self._broker.stores.existing(topic.name, store_id))
                for first, end, data_min in [(*store.bounds, store.data_min)]
                for partition in topic.partition_ids_of(store_id)
            ]
            if items:
                data.append({"topicName": topic.name, "offsetInfo": items})
        return succeeded(dataSet=data)

    def _offsets(self, parameters: Parameters) -> dict[str, Any]:
        wanted = parameters.texts("groupName")
        topics_of: dict[str, set[str]] = {}
        for cursor in self._broker.offsets.cursors():
            topics_of.setdefault(cursor.group, set()).add(cursor.topic)
        data = [
            {
                "groupName": group,
                "subInfo": [
                    {"topicName": topic.name, "offsets": [self._offset(group, topic, n) for n in topic.partition_ids()]}
                    for topic in self._topics(parameters)
                    if topic.name in topics
                ],
            }
            for group, topics in sorted(topics_of.items())
            if not wanted or group in wanted
        ]
        return succeeded(dataSet=data)

    def _offset(self, group: str, topic: TopicConfig, partition_id: int) -> dict[str, int]:
        cursor = Cursor(group, topic.name, partition_id)
        committed = self._broker.offsets.committed(cursor)
        store = self._broker.stores.existing(cursor.topic, cursor.partition_id // MAX_STORE_PARTITIONS)
        return {
            "partitionId": partition_id,
            "curOffset": UNKNOWN if committed is None else committed,
            "flightOffset": UNKNOWN if committed is None else self._broker.offsets.in_flight(cursor),
            "offsetMax": UNKNOWN if store is None else store.max_offset,
        }

    def _group_names(self, parameters: Parameters) -> dict[str, Any]:
        return succeeded(
            dataSet=[{"type": "all", "groupName": sorted({cursor.group for cursor in self._broker.offsets.cursors()})}]
        )

    # Changes

    def _set_offsets(self, parameters: Parameters) -> dict[str, Any]:
        groups = parameters.texts("groupName", required=True)
        parameters.text("modifyUser")
        if not parameters.switch("manualSet"):
            raise AdminError("this broker sets the positions of offsetJsonInfo only; ask with manualSet")
        text = parameters.text("offsetJsonInfo")
        try:
            given = {PartitionKey.parse(key): int(value) for key, value in json.loads(text).items()}
        except (ConfigurationError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise AdminError(f"offsetJsonInfo is not {{'brokerId:topic:partitionId': offset, ...}}: {error}") from error
        wanted = {
            (key.topic, key.partition_id): offset
            for key, offset in given.items()
            if key.broker_id == self._broker.broker_id and self._broker.catalogue.topic(key.topic)
        }
        if not wanted:
            raise AdminError("offsetJsonInfo names no partition of this broker")
        self._reset(groups, wanted)
        return succeeded()

    def _set_current_offset(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        offset = parameters.number("manualOffset")
        cursor = Cursor(parameters.text("groupName"), parameters.text("topicName"), parameters.number("partitionId"))
        store = self._store(cursor.topic, cursor.partition_id)
        if not store.min_offset <= offset <= store.max_offset:
            raise AdminError(f"manualOffset {offset} is not in [{store.min_offset}, {store.max_offset}]")
        return succeeded(oldOffset=self._broker.offsets.reset(cursor, offset, store.bounds))

    def _reset(self, groups: list[str], wanted: Mapping[tuple[str, int], int]) -> None:
        """Set the positions of all groups; AdminError, and none is set, if a partition is unknown."""
        bounds = {place: self._store(*place).bounds for place in wanted}
        for group in groups:
            for (topic, partition), offset in wanted.items():
                self._broker.offsets.reset(Cursor(group, topic, partition), offset, bounds[topic, partition])

    # Look-ups

    def _topics(self, parameters: Parameters) -> list[TopicConfig]:
        names = parameters.texts("topicName")
        return [topic for topic in self._broker.catalogue.topics() if not names or topic.name in names]

    def _has_partition(self, topic: str, partition: int) -> bool:
        config = self._broker.catalogue.topic(topic)
        return config is not None and config.has_partition(partition)

    def _store(self, topic: str, partition: int) -> Store:
        if not self._has_partition(topic, partition):
            raise AdminError(f"there is no partition {topic}:{partition} on this broker")
        return self._broker.stores.of_partition(topic, partition)
