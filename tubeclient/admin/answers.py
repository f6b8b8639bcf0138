"""Parses the JSON of masters and brokers into values. Pure; the only error is a ProtocolError that names the field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from tubeclient.admin.model import (
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupMember,
    GroupSummary,
    PartitionPosition,
    TopicOnBroker,
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

_MAX_INT64: Final = (1 << 63) - 1
_SHOWN_CHARACTERS: Final = 60

# The servers write this for an unknown number or boolean.
_NOTHING: Final = "-"


class Fields:
    """One JSON object; `where` names the answer in errors."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self._values = values
        self._where = where

    def objects(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [self._object(name, item) for item in self._list(name)]

    def sub_object(self, name: str) -> Fields:
        """An object; a missing one is empty."""
        return self._object(name, self._values.get(name, {}))

    def names(self) -> list[str]:
        """The names of all fields, for objects that map names to things."""
        return list(self._values)

    def texts(self, name: str) -> frozenset[str]:
        """A list of texts, as a set: its order has no meaning."""
        found = self._list(name)
        return frozenset(item if isinstance(item, str) else self._wrong(name, "a list of texts") for item in found)

    def text(self, name: str) -> str:
        """A text."""
        value = self._values.get(name)
        return value if isinstance(value, str) else self._wrong(name, "a text")

    def number(self, name: str, *, low: int = 0, high: int = _MAX_INT64) -> int:
        """A whole number in [low, high]."""
        value = self._values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        return self._wrong(name, f"a whole number from {low} to {high}")

    def column(self, name: str, field: str, lines: Iterable[int] | None = None, *, high: int = _MAX_INT64) -> list[int]:
        """A whole number from 0 to `high` of each object of a list, perhaps thousands, or of those in `lines`."""
        items: list[Any] = self._list(name)
        if lines is not None:
            items = [items[line] for line in lines]
        try:
            found = [item[field] for item in items]
        except (TypeError, LookupError):
            found = [None]  # checked one by one below
        if set(map(type, found)) <= {int} and 0 <= min(found, default=0) <= max(found, default=0) <= high:
            return found
        return [self._object(name, item).number(field, high=high) for item in items]

    def known_number(self, name: str) -> int | None:
        """A whole number from 0 on; None if the server has none (-1, -2 or "-")."""
        if self._values.get(name, _NOTHING) == _NOTHING:
            return None
        value = self.number(name, low=-2)
        return value if value >= 0 else None

    def flag(self, name: str) -> bool:
        """A boolean, which some calls write as text; False if the server has none."""
        value = self._values.get(name, _NOTHING)
        if isinstance(value, bool):
            return value
        if value in ("true", "false", _NOTHING):
            return value == "true"
        return self._wrong(name, "true or false")

    def _list(self, name: str) -> list[object]:
        value = self._values.get(name)
        return value if isinstance(value, list) else self._wrong(name, "a list")

    def _object(self, name: str, value: object) -> Fields:
        return Fields(value, self._where) if isinstance(value, dict) else self._wrong(name, "an object")

    def _wrong(self, name: str, expected: str) -> NoReturn:
        if name not in self._values:
            raise ProtocolError(f"{self._where} without the field {name}, which is {expected}")
        found = str(self._values[name])[:_SHOWN_CHARACTERS]
        raise ProtocolError(f"{self._where} with {found!r} in the field {name}, which is {expected}")


_MAX_INT32: Final = (1 << 31) - 1
_MAX_PORT: Final = 65_535
_MAX_MESSAGE_MB: Final = 1 << 10

_TOPIC_STATUS: Final = ("ok", "soft deleted", "soft removed", "hard removed")


def to_brokers(answer: Fields) -> list[BrokerState]:
    """admin_query_broker_run_status; sorted by id."""
    found = [
        BrokerState(
            info=_broker(item),
            tls_port=item.number("brokerTLSPort", high=_MAX_PORT),
            web_port=item.number("brokerWebPort", high=_MAX_PORT),
            manage_status=item.text("manageStatus"),
            run_status=item.text("runStatus"),
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
        kind=answer.text("isBandConsume"),
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
        status=dict(enumerate(_TOPIC_STATUS)).get(item.number("topicStatusId", low=-2), "-"),
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
