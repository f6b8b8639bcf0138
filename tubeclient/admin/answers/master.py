"""The answers of the master's web calls."""

from __future__ import annotations

from typing import Final

from tubeclient.admin.answers.fields import Fields
from tubeclient.admin.answers.model import (
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupKind,
    GroupMember,
    GroupSummary,
    ManageStatus,
    PartitionPosition,
    RunStatus,
    TopicOnBroker,
    TopicStatus,
)
from tubeclient.errors import ProtocolError
from tubeclient.keys import (
    MAX_STORE_PARTITIONS,
    MAX_STORES,
    BrokerInfo,
    PartitionKey,
    StoreBounds,
    StoreFiles,
    StoreKey,
    is_int32,
)

_MAX_INT32: Final = (1 << 31) - 1
_MAX_PORT: Final = 65_535
_MAX_MESSAGE_MB: Final = 1 << 10

_TOPIC_STATUS: Final = {
    0: TopicStatus.OK,
    1: TopicStatus.SOFT_DELETED,
    2: TopicStatus.SOFT_REMOVED,
    3: TopicStatus.HARD_REMOVED,
}


def to_brokers(answer: Fields) -> list[BrokerState]:
    """admin_query_broker_run_status; sorted by id."""
    found = [
        BrokerState(
            info=_broker(item),
            tls_port=item.number("brokerTLSPort", high=_MAX_PORT),
            web_port=item.number("brokerWebPort", high=_MAX_PORT),
            manage_status=ManageStatus(item.text("manageStatus")),
            run_status=RunStatus(item.text("runStatus")),
            accepts_publish=item.flag("acceptPublish"),
            accepts_subscribe=item.flag("acceptSubscribe"),
            takes_tls=item.flag("enableTLS"),
        )
        for item in answer.objects("data")
    ]
    return sorted(found, key=lambda state: state.info)


def to_topics(answer: Fields) -> list[DeployedTopic]:
    """admin_query_topic_info; sorted by name."""
    found = [
        DeployedTopic(
            name=item.text("topicName"),
            max_message_bytes=item.number("maxMsgSizeInMB", high=_MAX_MESSAGE_MB) << 20,
            on_brokers=tuple(sorted(map(_topic_on_broker, item.objects("topicInfo")), key=lambda on: on.broker)),
        )
        for item in answer.objects("data")
    ]
    return sorted(found, key=lambda topic: topic.name)


def to_groups(answer: Fields) -> list[GroupSummary]:
    """admin_query_sub_info; sorted by name."""
    return sorted(
        GroupSummary(item.text("consumeGroup"), item.texts("topicSet"), item.number("consumerNum", high=_MAX_INT32))
        for item in answer.objects("data")
    )


def to_group(answer: Fields) -> GroupDetail:
    """admin_query_consume_group_detail; members sorted by node id and client id."""
    filters = answer.sub_object("filterConds")
    members = [
        GroupMember(
            client_id=item.text("consumerId"),
            host=item.text("receivedFrom"),
            over_tls=item.flag("isOverTLS"),
            source_count=item.known_number("sourceCount") or None,
            node_id=item.known_number("nodeId"),
            partitions=tuple(sorted(map(_partition, item.objects("parInfo")))),
        )
        for item in answer.objects("data")
    ]
    members.sort(key=lambda member: (-1 if member.node_id is None else member.node_id, member.client_id))
    return GroupDetail(
        name=answer.text("consumeGroup"),
        kind=GroupKind(answer.text("isBandConsume")),
        topics=answer.texts("topicSet"),
        filters={topic: filters.texts(topic) for topic in filters.names()},
        members=tuple(members),
    )


def refusals(answer: Fields) -> list[str]:
    """The refused items of a change, in the master's words: it answers "OK" with an outcome per item."""
    return [
        f"broker {item.known_number('brokerId')}: {item.text('errInfo')}"
        for item in answer.objects("data")
        if not item.flag("success")
    ]


def _topic_on_broker(item: Fields) -> TopicOnBroker:
    running = item.sub_object("runInfo")
    is_loaded = running.known_number("numPartitions") is not None
    numbers = running if is_loaded else item
    return TopicOnBroker(
        topic=item.text("topicName"),
        broker=_broker(item),
        stores=numbers.number("numTopicStores", high=MAX_STORES),
        partitions_per_store=numbers.number("numPartitions", high=MAX_STORE_PARTITIONS),
        accepts_publish=running.flag("acceptPublish"),
        accepts_subscribe=running.flag("acceptSubscribe"),
        is_loaded=is_loaded,
        status=_TOPIC_STATUS.get(item.number("topicStatusId", low=-2), TopicStatus.UNKNOWN),
    )


def _broker(item: Fields) -> BrokerInfo:
    return BrokerInfo(
        item.number("brokerId", high=_MAX_INT32), item.text("brokerIp"), item.number("brokerPort", high=_MAX_PORT)
    )


def _partition(item: Fields) -> PartitionKey:
    broker_id, _, address = item.text("brokerAddr").partition(":")
    if not is_int32(broker_id) or not address:
        raise ProtocolError(f"brokerAddr {item.text('brokerAddr')[:60]!r} of a partition is not brokerId:host:port")
    return PartitionKey(int(broker_id), item.text("topicName"), item.number("partId", high=_MAX_INT32))


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
