"""The HTTP calls of master and broker, as functions from parameters to JSON.

The JSON has the form of TubeMQ's servlets (BrokerAdminServlet, and the master's WebOtherInfoHandler,
WebBrokerConfHandler and WebTopicDeployHandler), with the fields that Admin reads. Answers are always HTTP 200; `result`
and `errCode` (0, or 400 and up) give the outcome. Only changes at the master need its token.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.common.catalogue import MAX_MESSAGE_BYTES, BrokerState, TopicConfig
from embedded_tubemq.master.groups import ConsumerGroup
from embedded_tubemq.master.master import Master
from embedded_tubemq.storage.store import Store
from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_STORE_PARTITIONS, PartitionKey

__all__ = ["BrokerAdmin", "Call", "MasterAdmin", "Parameters", "failed"]

_UNKNOWN = -2
_NOTHING = "-"  # a field without a value


class AdminError(Exception):
    """A call that failed; becomes errMsg."""


class Parameters:
    """What a request gives, by name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        """A text. Without a value and a default the call fails."""
        if value := self._values.get(name, "").strip():
            return value
        if default is None:
            raise AdminError(f"the parameter {name} is missing")
        return default

    def texts(self, name: str, *, required: bool = False) -> list[str]:
        items = [item.strip() for item in self.text(name, None if required else "").split(",") if item.strip()]
        return list(dict.fromkeys(items))

    def number(self, name: str, default: int | None = None) -> int:
        text = self.text(name, None if default is None else str(default))
        try:
            return int(text)
        except ValueError as error:
            raise AdminError(f"the parameter {name} is {text!r}, which is not a number") from error

    def switch(self, name: str, default: bool | None = None) -> bool:
        return self.text(name, None if default is None else str(default)).lower() == "true"


Call = Callable[[Parameters], dict[str, Any]]


def succeeded(**fields: Any) -> dict[str, Any]:
    return {"result": True, "errCode": 0, "errMsg": "OK", **fields}


def listed(data: list[Any]) -> dict[str, Any]:
    return succeeded(data=data, count=len(data))


def failed(error: Exception, code: int = 400) -> dict[str, Any]:
    return {"result": False, "errCode": code, "errMsg": str(error)}


class BrokerAdmin:
    """The calls of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._calls: dict[str, Call] = {
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

    def _pub_info(self, parameters: Parameters) -> dict[str, Any]:
        data = []
        for topic in self._broker.catalogue.topics(parameters.texts("topicName")):
            # Leave out topics whose stores were never used, as TubeMQ does.
            items = [
                {
                    "partitionId": partition,
                    "offsetMin": store.min_offset,
                    "offsetMax": store.max_offset,
                    "dataMin": store.data_min,
                }
                for store_id in range(topic.stores)
                if (store := self._broker.stores.existing(topic.name, store_id))
                for partition in topic.partition_ids_of(store_id)
            ]
            if items:
                data.append({"topicName": topic.name, "offsetInfo": items})
        return succeeded(dataSet=data)

    def _offsets(self, parameters: Parameters) -> dict[str, Any]:
        wanted = parameters.texts("groupName")
        asked = self._broker.catalogue.topics(parameters.texts("topicName"))
        topics_of: dict[str, set[str]] = {}
        for cursor in self._broker.offsets.cursors():
            topics_of.setdefault(cursor.group, set()).add(cursor.topic)
        data = [
            {
                "groupName": group,
                "subInfo": [
                    {"topicName": topic.name, "offsets": [self._offset(group, topic, n) for n in topic.partition_ids()]}
                    for topic in asked
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
            "curOffset": _UNKNOWN if committed is None else committed,
            "flightOffset": _UNKNOWN if committed is None else self._broker.offsets.in_flight(cursor),
            "offsetMax": _UNKNOWN if store is None else store.max_offset,
        }

    def _group_names(self, _: Parameters) -> dict[str, Any]:
        names = sorted({cursor.group for cursor in self._broker.offsets.cursors()})
        return succeeded(dataSet=[{"type": "all", "groupName": names}])

    def _set_offsets(self, parameters: Parameters) -> dict[str, Any]:
        """Set the positions of all groups; none is set if a partition is unknown."""
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
        bounds = {place: self._store(*place).bounds for place in wanted}
        for group in groups:
            for place, offset in wanted.items():
                self._broker.offsets.reset(Cursor(group, *place), offset, bounds[place])
        return succeeded()

    def _set_current_offset(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        offset = parameters.number("manualOffset")
        cursor = Cursor(parameters.text("groupName"), parameters.text("topicName"), parameters.number("partitionId"))
        store = self._store(cursor.topic, cursor.partition_id)
        if not store.min_offset <= offset <= store.max_offset:
            raise AdminError(f"manualOffset {offset} is not in [{store.min_offset}, {store.max_offset}]")
        return succeeded(oldOffset=self._broker.offsets.reset(cursor, offset, store.bounds))

    def _store(self, topic: str, partition: int) -> Store:
        config = self._broker.catalogue.topic(topic)
        if config is None or not config.has_partition(partition):
            raise AdminError(f"there is no partition {topic}:{partition} on this broker")
        return self._broker.stores.of_partition(topic, partition)


class MasterAdmin:
    """The calls of one master. `put_topic` creates a topic, or lets it grow; `clock` gives ms."""

    def __init__(
        self, master: Master, put_topic: Callable[[TopicConfig], None], token: str, clock: Callable[[], int]
    ) -> None:
        self._master = master
        self._catalogue = master.catalogue
        self._put_topic = put_topic
        self._token = token
        self._clock = clock
        self._queries: dict[str, Call] = {
            "admin_query_broker_run_status": lambda _: listed(list(map(_broker_json, self._catalogue.brokers()))),
            "admin_query_topic_info": self._topic_info,
            "admin_query_consume_group_detail": self._group_detail,
            "admin_query_sub_info": self._sub_info,
            "admin_query_client_balance_group_set": lambda _: listed(sorted(self._master.groups)),
        }
        self._changes: dict[str, Call] = {
            "admin_add_new_topic_record": self._add_topic,
            "admin_modify_topic_info": self._modify_topic,
            # TubeMQ's brokers get topic changes only with this call; brokers here have them at once.
            "admin_reload_broker_configure": lambda _: listed([]),
        }

    def call(self, parameters: Parameters) -> dict[str, Any]:
        self._master.tick(self._clock())
        try:
            if self._master.faults.standby:
                raise AdminError("Bad request from client, Please send your request to the master Node.")
            method = parameters.text("method")
            if method in self._queries:
                return self._queries[method](parameters)
            if method in self._changes:
                if not hmac.compare_digest(parameters.text("confModAuthToken").encode(), self._token.encode()):
                    raise AdminError("illegal access, unauthorized request: confModAuthToken is not this master's")
                return self._changes[method](parameters)
            raise AdminError(f"unknown method {method}")
        except (AdminError, ConfigurationError) as error:
            return failed(error)

    # Queries

    def _topic_info(self, parameters: Parameters) -> dict[str, Any]:
        return listed(
            [
                {
                    "topicName": topic.name,
                    "maxMsgSizeInMB": MAX_MESSAGE_BYTES >> 20,
                    "topicInfo": [_deployed_json(topic, broker) for broker in self._catalogue.brokers()],
                }
                for topic in self._catalogue.topics(parameters.texts("topicName"))
            ]
        )

    def _group_detail(self, parameters: Parameters) -> dict[str, Any]:
        name = parameters.text("groupName")
        group = self._master.groups.get(name)
        if group is None:
            return succeeded(consumeGroup=name, isBandConsume="unbound", topicSet=[], filterConds={}, data=[])
        return succeeded(
            consumeGroup=name,
            isBandConsume="client-rebalance",
            topicSet=sorted(group.first.topics),
            filterConds={topic: sorted(tags) for topic, tags in group.first.filters.items()},
            data=self._members_json(group),
        )

    def _members_json(self, group: ConsumerGroup) -> list[dict[str, Any]]:
        brokers = {broker.info.broker_id: str(broker.info) for broker in self._catalogue.brokers()}
        return [
            {
                "consumerId": member.client_id,
                "receivedFrom": member.peer.address.rpartition(":")[0],
                "isOverTLS": member.peer.tls,
                "sourceCount": member.source_count,
                "nodeId": member.node_id,
                "parInfo": [
                    {"partId": key.partition_id, "brokerAddr": brokers[key.broker_id], "topicName": key.topic}
                    for key in member.partitions
                    if key.broker_id in brokers
                ],
            }
            for _, member in sorted(group.consumers.items())
        ]

    def _sub_info(self, _: Parameters) -> dict[str, Any]:
        return listed(
            [
                {"consumeGroup": name, "topicSet": sorted(group.first.topics), "consumerNum": len(group.consumers)}
                for name, group in sorted(self._master.groups.items())
            ]
        )

    # Changes

    def _add_topic(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("createUser")
        name = parameters.text("topicName")
        if self._catalogue.topic(name) is not None:
            return self._outcomes(success=False, errCode=402, errInfo=f"topic {name} exists already")
        return self._put(parameters, TopicConfig(name))

    def _modify_topic(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        former = self._catalogue.topic(parameters.text("topicName"))
        if former is None:
            raise AdminError(f"there is no topic {parameters.text('topicName')}")
        return self._put(parameters, former)

    def _put(self, parameters: Parameters, former: TopicConfig) -> dict[str, Any]:
        wanted = replace(
            former,
            stores=parameters.number("numTopicStores", former.stores),
            partitions=parameters.number("numPartitions", former.partitions),
            accept_publish=parameters.switch("acceptPublish", former.accept_publish),
            accept_subscribe=parameters.switch("acceptSubscribe", former.accept_subscribe),
        )
        self._put_topic(wanted)
        return self._outcomes(success=True, errCode=200, errInfo="Ok!")

    def _outcomes(self, **outcome: Any) -> dict[str, Any]:
        """One for each broker."""
        return listed([{"brokerId": broker.info.broker_id, **outcome} for broker in self._catalogue.brokers()])


def _broker_json(broker: BrokerState) -> dict[str, Any]:
    info, online = broker.info, broker.online
    return {
        "brokerId": info.broker_id,
        "brokerIp": info.host,
        "brokerPort": info.port,
        "brokerWebPort": broker.web_port,
        "brokerTLSPort": broker.tls_port,
        "manageStatus": "online",
        "runStatus": "running" if online else "unRegister",
        "enableTLS": broker.tls_port > 0 if online else _NOTHING,
        # TubeMQ writes these as text.
        "acceptPublish": "true" if online else _NOTHING,
        "acceptSubscribe": "true" if online else _NOTHING,
    }


def _deployed_json(topic: TopicConfig, broker: BrokerState) -> dict[str, Any]:
    sizes = {"numPartitions": topic.partitions, "numTopicStores": topic.stores}
    accepted = {"acceptPublish": topic.accept_publish, "acceptSubscribe": topic.accept_subscribe}
    return {
        "topicName": topic.name,
        "brokerId": broker.info.broker_id,
        "brokerIp": broker.info.host,
        "brokerPort": broker.info.port,
        "topicStatusId": 0,
        **sizes,
        **accepted,
        "runInfo": sizes | accepted if broker.online else dict.fromkeys((*sizes, *accepted), _NOTHING),
    }
