"""What masters and brokers report over HTTP: values, and how they are made of the servers' JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from tubeclient.errors import ProtocolError
from tubeclient.keys import (
    INDEX_ENTRY_BYTES,
    MAX_STORE_PARTITIONS,
    MAX_STORES,
    BrokerInfo,
    PartitionKey,
    StoreBounds,
    StoreFiles,
    StoreKey,
    TopicLayout,
    is_int32,
    joined_address,
    rows_behind,
)

T = TypeVar("T")

_MAX_INT32: Final = (1 << 31) - 1
_MAX_INT64: Final = (1 << 63) - 1
_MAX_PORT: Final = 65_535
_MAX_MESSAGE_MB: Final = 1 << 10
_SHOWN_CHARACTERS: Final = 60
_TOPIC_STATUS: Final = ("ok", "soft deleted", "soft removed", "hard removed")

# The servers write this for an unknown number or boolean.
_NOTHING: Final = "-"


def value_of(answer: Any, to_value: Callable[[Any], T], where: str) -> T:
    """`to_value` of a server's answer; `where` names the answer in the ProtocolError for one that is not TubeMQ's."""
    try:
        return to_value(answer)
    except KeyError as error:
        wrong = f"without the field {error.args[0]}"
    except (TypeError, ValueError, AttributeError) as error:
        wrong = f"with something unexpected: {error}"
    raise ProtocolError(f"{where} {wrong}")


def _wrong(value: object, expected: str) -> ValueError:
    return ValueError(f"{str(value)[:_SHOWN_CHARACTERS]!r} instead of {expected}")


def _number(value: object, high: int = _MAX_INT64, low: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _wrong(value, f"a whole number from {low} to {high}")
    return value


def _known(value: object) -> int | None:
    """A whole number from 0 on; None if the server has none (-1, -2 or "-")."""
    number = -1 if value == _NOTHING else _number(value, low=-2)
    return number if number >= 0 else None


def _flag(value: object) -> bool:
    """A boolean, which some calls write as text; False if the server has none."""
    if isinstance(value, bool):
        return value
    if value not in ("true", "false", _NOTHING):
        raise _wrong(value, "true or false")
    return value == "true"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "a text")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(value, "a list")
    return value


def _texts(value: object) -> frozenset[str]:
    """A list of texts, as a set: its order has no meaning."""
    return frozenset(map(_text, _list(value)))


def _broker(item: Any) -> BrokerInfo:
    return BrokerInfo(
        _number(item["brokerId"], _MAX_INT32), _text(item["brokerIp"]), _number(item["brokerPort"], _MAX_PORT)
    )


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker in the master's configuration."""

    info: BrokerInfo
    tls_port: int
    web_port: int
    manage_status: str
    """As configured: draft, online, only-read, only-write or offline."""
    run_status: str
    """Whether it runs: running, notRegister (it is registering or unregistering) or unRegister (it never registered,
    unregistered or timed out)."""

    @property
    def web_address(self) -> str:
        """The broker's HTTP interface as "host:port"."""
        return joined_address(self.info.host, self.web_port)

    @property
    def is_in_service(self) -> bool:
        """Whether the broker is online for readers or producers. It may not be running."""
        return self.manage_status in ("online", "only-read", "only-write")

    def is_at(self, broker: BrokerInfo) -> bool:
        """Return whether this is the broker at that address. Over TLS, masters name the TLS port to clients."""
        info = self.info
        return info[:2] == broker[:2] and broker.port in (info.port, self.tls_port)

    def __str__(self) -> str:
        return str(self.info)


def to_brokers(answer: Any) -> list[BrokerState]:
    """admin_query_broker_run_status; sorted by id."""
    found = [
        BrokerState(
            info=_broker(item),
            tls_port=_number(item["brokerTLSPort"], _MAX_PORT),
            web_port=_number(item["brokerWebPort"], _MAX_PORT),
            manage_status=_text(item["manageStatus"]),
            run_status=_text(item["runStatus"]),
        )
        for item in _list(answer["data"])
    ]
    return sorted(found, key=lambda state: state.info)


@dataclass(frozen=True, slots=True)
class TopicOnBroker:
    """A topic's layout on one broker."""

    topic: str
    broker: BrokerInfo
    stores: int
    partitions_per_store: int
    accepts_publish: bool
    accepts_subscribe: bool
    is_loaded: bool
    """Whether the broker has loaded it; otherwise stores and partitions are what the broker will create once it
    runs."""
    status: str
    """The progress of its deletion there: ok, soft deleted, soft removed or hard removed."""

    @property
    def layout(self) -> TopicLayout:
        """The layout as the master shows it to readers."""
        return TopicLayout(
            self.topic, self.broker.broker_id, self.stores, self.partitions_per_store, self.accepts_subscribe
        )


@dataclass(frozen=True, slots=True)
class DeployedTopic:
    """A topic and its brokers, sorted by id.

    Attributes:
        max_message_bytes: The size limit of a message's payload with its attributes.
    """

    name: str
    max_message_bytes: int
    on_brokers: tuple[TopicOnBroker, ...]

    def partitions(self) -> list[PartitionKey]:
        """Return all partitions of the topic, sorted."""
        return sorted(key for deployed in self.on_brokers for key in deployed.layout.partitions())


def _topic_on_broker(item: Any) -> TopicOnBroker:
    running = item["runInfo"]
    is_loaded = _known(running.get("numPartitions", _NOTHING)) is not None
    numbers = running if is_loaded else item
    return TopicOnBroker(
        topic=_text(item["topicName"]),
        broker=_broker(item),
        stores=_number(numbers["numTopicStores"], MAX_STORES),
        partitions_per_store=_number(numbers["numPartitions"], MAX_STORE_PARTITIONS),
        accepts_publish=_flag(running.get("acceptPublish", _NOTHING)),
        accepts_subscribe=_flag(running.get("acceptSubscribe", _NOTHING)),
        is_loaded=is_loaded,
        status=dict(enumerate(_TOPIC_STATUS)).get(_number(item["topicStatusId"], low=-2), "-"),
    )


def to_topics(answer: Any) -> list[DeployedTopic]:
    """admin_query_topic_info; sorted by name."""
    found = [
        DeployedTopic(
            name=_text(item["topicName"]),
            max_message_bytes=_number(item["maxMsgSizeInMB"], _MAX_MESSAGE_MB) << 20,
            on_brokers=tuple(sorted(map(_topic_on_broker, _list(item["topicInfo"])), key=lambda on: on.broker)),
        )
        for item in _list(answer["data"])
    ]
    return sorted(found, key=lambda topic: topic.name)


class GroupSummary(NamedTuple):
    """A consumer group with clients online."""

    name: str
    topics: frozenset[str]
    members: int


def to_groups(answer: Any) -> list[GroupSummary]:
    """admin_query_sub_info; sorted by name."""
    return sorted(
        GroupSummary(_text(item["consumeGroup"]), _texts(item["topicSet"]), _number(item["consumerNum"], _MAX_INT32))
        for item in _list(answer["data"])
    )


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A client of a group.

    Attributes:
        source_count: None if the client was started without it.
        node_id: None if the client was started without it.
    """

    client_id: str
    host: str
    over_tls: bool
    source_count: int | None
    node_id: int | None
    partitions: tuple[PartitionKey, ...]
    """The partitions of its last report, sorted. A report may be a heartbeat late."""


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group at the master.

    Without members, topics and filters are empty, because the master forgets a group with its last client.

    Attributes:
        filters: Filter tags by topic. Topics without a filter are missing.
    """

    name: str
    kind: str
    """Who assigns its partitions: the master (unbound), the master with given start offsets (bound), or the clients
    (client-rebalance). A group without clients is unbound."""
    topics: frozenset[str]
    filters: Mapping[str, frozenset[str]] = field(hash=False)
    members: tuple[GroupMember, ...]


def _partition(item: Any) -> PartitionKey:
    broker_id, _, address = _text(item["brokerAddr"]).partition(":")
    if not is_int32(broker_id) or not address:
        raise _wrong(item["brokerAddr"], "brokerId:host:port of a partition")
    return PartitionKey(int(broker_id), _text(item["topicName"]), _number(item["partId"], _MAX_INT32))


def to_group(answer: Any) -> GroupDetail:
    """admin_query_consume_group_detail; members sorted by node id and client id."""
    members = [
        GroupMember(
            client_id=_text(item["consumerId"]),
            host=_text(item["receivedFrom"]),
            over_tls=_flag(item["isOverTLS"]),
            source_count=_known(item.get("sourceCount", _NOTHING)) or None,
            node_id=_known(item.get("nodeId", _NOTHING)),
            partitions=tuple(sorted(map(_partition, _list(item["parInfo"])))),
        )
        for item in _list(answer["data"])
    ]
    members.sort(key=lambda member: (-1 if member.node_id is None else member.node_id, member.client_id))
    return GroupDetail(
        name=_text(answer["consumeGroup"]),
        kind=_text(answer["isBandConsume"]),
        topics=_texts(answer["topicSet"]),
        filters={topic: _texts(tags) for topic, tags in answer.get("filterConds", {}).items()},
        members=tuple(members),
    )


def refusals(answer: Any) -> list[str]:
    """The refused items of a change, in the master's words: it answers "OK" with an outcome per item."""
    return [
        f"broker {_known(item.get('brokerId', _NOTHING))}: {_text(item['errInfo'])}"
        for item in _list(answer["data"])
        if not _flag(item["success"])
    ]


def to_files(answer: Any, broker_id: int) -> dict[StoreKey, StoreFiles]:
    """admin_query_pubinfo. Without stores that were never written to."""
    found = {}
    for topic in _list(answer["dataSet"]):
        name = _text(topic["topicName"])
        last: dict[int, tuple[int, Any]] = {}
        for line in _list(topic["offsetInfo"]):  # one for each partition, maybe thousands; all of a store are equal
            number = _number(line["partitionId"], _MAX_INT32)
            store_id = number // MAX_STORE_PARTITIONS
            if number >= last.get(store_id, (0, None))[0]:
                last[store_id] = number, line
        for store_id, (number, line) in last.items():
            bounds = StoreBounds(_number(line["offsetMin"]), _number(line["offsetMax"]))
            found[StoreKey(broker_id, name, store_id)] = StoreFiles(bounds, _number(line["dataMin"]), number)
    return found


class PartitionPosition(NamedTuple):
    """A group's position in one partition. All three numbers are bytes of the index."""

    partition: PartitionKey
    committed: int
    in_flight: int
    """Fetched beyond `committed` and not confirmed yet."""
    end: int
    """The current end of the partition's store."""

    @property
    def rows_behind(self) -> int:
        """The most rows that are left. Exact if the store has one partition and nothing is filtered."""
        return max(0, self.end - self.committed) // INDEX_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The positions of a group, sorted by partition. Partitions that never had a position are missing."""

    group: str
    positions: tuple[PartitionPosition, ...]

    @property
    def committed(self) -> dict[PartitionKey, int]:
        """The committed positions by partition."""
        return {position.partition: position.committed for position in self.positions}

    @property
    def rows_behind(self) -> int:
        """The most rows that are left in these partitions. A shared store counts once."""
        ends = {position.partition: position.end for position in self.positions}
        return rows_behind(ends, self.committed)

    @property
    def beyond_end(self) -> tuple[PartitionKey, ...]:
        """The partitions whose position is past their store's end.

        What is left in them is unknown. Either the topic was deleted and created again, or the broker lost its newest
        messages.
        """
        return tuple(position.partition for position in self.positions if position.committed > position.end)


def to_positions(answer: Any, broker_id: int, group: str) -> list[PartitionPosition]:
    """admin_query_offset: the positions of `group`, sorted. The end of a store never written to is 0."""
    found = []
    for of_group in _list(answer["dataSet"]):
        if _text(of_group["groupName"]) != group:
            continue
        for topic in _list(of_group["subInfo"]):
            name = _text(topic["topicName"])
            for item in _list(topic["offsets"]):
                committed = _known(item["curOffset"])
                if committed is not None:
                    key = PartitionKey(broker_id, name, _number(item["partitionId"], _MAX_INT32))
                    in_flight = _number(item["flightOffset"], low=-_MAX_INT64)
                    found.append(PartitionPosition(key, committed, in_flight, _known(item["offsetMax"]) or 0))
    return sorted(found)


def to_group_names(answer: Any) -> frozenset[str]:
    """admin_get_booked_groupname."""
    return frozenset(name for part in _list(answer["dataSet"]) for name in _texts(part["groupName"]))
