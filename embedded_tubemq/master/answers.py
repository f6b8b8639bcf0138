"""The master's JSON for brokers, topics and clients, with the fields of TubeMQ's master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from embedded_tubemq.common.catalogue import BrokerState, Catalogue, TopicConfig
from embedded_tubemq.master.groups import Consumer, ConsumerGroup
from tubeclient.wire.strings import encode_consumer_layouts

__all__ = ["DONE", "broker_json", "group_json", "refusal", "topic_json"]

DONE: dict[str, Any] = {"success": True, "errCode": 200, "errInfo": "Ok!"}
"""The outcome of one item of a change."""

# A field without a value.
_NOTHING = "-"

# TubeMQ's defaults of topic fields that this cluster ignores, and who set them when; sizes in MB, times in ms.
_TOPIC_DEFAULTS: Mapping[str, Any] = {
    "topicNameId": -2,
    "unflushThreshold": 1000,
    "unflushInterval": 10_000,
    "unflushDataHold": 0,
    "memCacheMsgSizeInMB": 3,
    "memCacheMsgCntInK": 10,
    "memCacheFlushIntvl": 20_000,
    "deletePolicy": "delete,168h",
    "dataStoreType": -2,
    "dataPath": "",
    "dataVersionId": -2,
    "serialId": 0,
    "createUser": "embedded",
    "createDate": "20000101000000",
    "modifyUser": "embedded",
    "modifyDate": "20000101000000",
}


def refusal(code: int, text: str) -> dict[str, Any]:
    """The outcome of a refused item."""
    return {"success": False, "errCode": code, "errInfo": text}


def broker_json(broker: BrokerState) -> dict[str, Any]:
    """A broker, for admin_query_broker_run_status."""
    info, online = broker.info, broker.online
    # TubeMQ writes these booleans as text.
    yes, no = ("true", "false") if online else (_NOTHING, _NOTHING)
    return {
        "brokerId": info.broker_id,
        "brokerIp": info.host,
        "brokerPort": info.port,
        "brokerWebPort": broker.web_port,
        "manageStatus": "online",
        "brokerTLSPort": broker.tls_port,
        "enableTLS": broker.tls_port > 0 if online else _NOTHING,
        "isRepAbnormal": False,
        "isAutoForbidden": False,
        "runStatus": "running" if online else "unRegister",
        "subStatus": "idle" if online else _NOTHING,
        "isConfChanged": no,
        "isConfLoaded": yes,
        "isBrokerOnline": yes,
        "brokerVersion": _NOTHING,
        "acceptPublish": yes,
        "acceptSubscribe": yes,
    }


def topic_json(topic: TopicConfig, brokers: list[BrokerState]) -> dict[str, Any]:
    """A topic on these brokers, for admin_query_topic_info."""
    partitions = topic.stores * topic.partitions
    online = [broker for broker in brokers if broker.online]
    return {
        "topicName": topic.name,
        "maxMsgSizeInMB": max(1, topic.max_message_bytes >> 20),
        "topicInfo": [
            {
                "topicName": topic.name,
                "brokerId": broker.info.broker_id,
                "brokerIp": broker.info.host,
                "brokerPort": broker.info.port,
                "topicStatusId": 0,
                "numTopicStores": topic.stores,
                "numPartitions": topic.partitions,
                "acceptPublish": topic.accept_publish,
                "acceptSubscribe": topic.accept_subscribe,
                **_TOPIC_DEFAULTS,
                "runInfo": _run_info(topic, broker),
            }
            for broker in brokers
        ],
        "infoCount": len(brokers),
        "totalCfgNumPart": partitions * len(brokers),
        "isSrvAcceptPublish": bool(online) and topic.accept_publish,
        "isSrvAcceptSubscribe": bool(online) and topic.accept_subscribe,
        "totalRunNumPartCount": partitions * len(online),
        "authData": {},
    }


def group_json(name: str, group: ConsumerGroup | None, catalogue: Catalogue) -> dict[str, Any]:
    """A group, for admin_query_consume_group_detail; without clients there is None, and it counts as unbound."""
    known = {broker.info.broker_id: str(broker.info) for broker in catalogue.brokers()}
    consumers = sorted(group.consumers.values(), key=lambda one: one.client_id) if group is not None else []
    return {
        "count": len(consumers),
        "topicSet": sorted(group.topics) if group is not None else [],
        "consumeGroup": name,
        "re-rebalance": {},  # orders of the call admin_rebalance_group_allocate, which this master does not have
        "isBandConsume": "client-rebalance" if group is not None else "unbound",
        **(_layout_json(group, catalogue) if group is not None else {}),
        "rebInfo": {"isRebalanced": False},
        "filterConds": {topic: sorted(tags) for topic, tags in group.filters.items()} if group is not None else {},
        "data": [_consumer_json(one, known) for one in consumers] if group is not None else [],
    }


def _layout_json(group: ConsumerGroup, catalogue: Catalogue) -> dict[str, Any]:
    layouts = catalogue.consumer_layouts(group.topics)
    return {"topicMetaId": catalogue.topic_version, "metaDetails": encode_consumer_layouts(layouts)}


def _consumer_json(consumer: Consumer, brokers: Mapping[int, str]) -> dict[str, Any]:
    held = [key for key in consumer.partitions if key.broker_id in brokers]
    return {
        "consumerId": consumer.client_id,
        "receivedFrom": consumer.peer.address.rpartition(":")[0],
        "isOverTLS": consumer.peer.tls,
        "sourceCount": consumer.source_count,
        "nodeId": consumer.node_id,
        "parCount": len(held),
        "parInfo": [
            {"partId": key.partition_id, "brokerAddr": brokers[key.broker_id], "topicName": key.topic} for key in held
        ],
    }


def _run_info(topic: TopicConfig, broker: BrokerState) -> dict[str, Any]:
    if not broker.online:
        fields = ("acceptPublish", "acceptSubscribe", "numPartitions", "brokerManageStatus")
        return dict.fromkeys(fields, _NOTHING)
    return {
        "acceptPublish": topic.accept_publish,
        "acceptSubscribe": topic.accept_subscribe,
        "numPartitions": topic.partitions,
        "numTopicStores": topic.stores,
        "brokerManageStatus": "online",
    }
