"""The content of the cluster: topics, brokers, settings, and version numbers that tell clients when to refresh."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_STORE_PARTITIONS, BrokerInfo, TopicLayout

MAX_MESSAGE_BYTES = 1 << 20
"""The largest payload, including attributes (TubeMQ's default of maxMsgSizeInMB)."""
_REMEMBERED_TOKENS = 6
_TOPIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class Peer(NamedTuple):
    """A client's "host:port", and whether it uses TLS: then it gets the brokers' TLS ports."""

    address: str = ""
    tls: bool = False


NOBODY = Peer()
"""For calls without a connection."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`lease_ms` is how long a client may be silent. `users` maps names to passwords; without users nobody has to sign.
    With `check_visit_token` brokers want a token of the master."""

    lease_ms: int = 30_000
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    check_visit_token: bool = False


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic, the same on every broker: `stores` stores of `partitions` partitions each.

    Raises:
        ConfigurationError: The name or a number is wrong.
    """

    name: str
    stores: int = 1
    partitions: int = 1
    accept_publish: bool = True
    accept_subscribe: bool = True

    def __post_init__(self) -> None:
        if not _TOPIC_NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"{self.name!r} is not a topic name: use a letter, then letters, digits, '_' and '-', at most 64 "
                "characters"
            )
        if not (1 <= self.stores <= 1000 and 1 <= self.partitions < MAX_STORE_PARTITIONS):
            raise ConfigurationError(
                f"topic {self.name} cannot have {self.stores} stores of {self.partitions} partitions: "
                f"1 to 1000 stores, 1 to {MAX_STORE_PARTITIONS - 1} partitions"
            )

    @classmethod
    def parse(cls, text: str) -> TopicConfig:
        """Read "name", "name:stores" or "name:stores:partitions".

        Raises:
            ConfigurationError: It is another text, or cannot be.
        """
        name, *numbers = text.split(":")
        if len(numbers) > 2 or not all(number.isdecimal() and len(number) < 10 for number in numbers):
            raise ConfigurationError(f"{text!r} is not a topic; write name:stores:partitions, such as flights:2:4")
        stores, partitions = [*map(int, numbers), 1, 1][:2]
        return cls(name, stores, partitions)

    def has_partition(self, partition_id: int) -> bool:
        store, number = divmod(partition_id, MAX_STORE_PARTITIONS)
        return 0 <= store < self.stores and number < self.partitions

    def partition_ids(self) -> list[int]:
        return [partition for store in range(self.stores) for partition in self.partition_ids_of(store)]

    def partition_ids_of(self, store: int) -> range:
        first = store * MAX_STORE_PARTITIONS
        return range(first, first + self.partitions)


@dataclass(frozen=True, slots=True)
class BrokerState:
    """Where a broker is; `tls_port` is 0 without TLS."""

    info: BrokerInfo
    web_port: int
    online: bool = True
    tls_port: int = 0


class Catalogue:
    """Topics and brokers.

    Each change gives the lists a version that was never used before, like TubeMQ's millisecond timestamps.
    """

    def __init__(self, now_ms: int, topics: Iterable[TopicConfig] = ()) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._brokers: dict[int, BrokerState] = {}
        self.broker_version = now_ms
        self.topic_version = now_ms
        self.visit_tokens = deque([now_ms], maxlen=_REMEMBERED_TOKENS)
        """What masters gave their clients, the newest last: brokers that check tokens want one of these."""

    def topics(self, names: Collection[str] = ()) -> list[TopicConfig]:
        """Those of `names`, if there are any; sorted."""
        return [self._topics[name] for name in sorted(self._topics) if not names or name in names]

    def topic(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def brokers(self) -> list[BrokerState]:
        """All brokers by id, also those that are down."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def put_topic(self, topic: TopicConfig) -> None:
        """Add a topic or replace its configuration; it may grow, never shrink."""
        former = self._topics.get(topic.name)
        if former and (topic.stores < former.stores or topic.partitions < former.partitions):
            raise ConfigurationError(
                f"topic {topic.name} has {former.stores} stores of {former.partitions} partitions and cannot shrink to "
                f"{topic.stores} of {topic.partitions}; delete it and create it again"
            )
        if topic != former:
            self._topics[topic.name] = topic
            self.topic_version += 1

    def grow_topic(self, name: str, stores: int | None = None, partitions: int | None = None) -> None:
        """Give a topic more stores, or more partitions per store."""
        former = self._topics.get(name)
        if former is None:
            raise ConfigurationError(f"there is no topic {name} to grow")
        self.put_topic(replace(former, stores=stores or former.stores, partitions=partitions or former.partitions))

    def remove_topic(self, name: str) -> None:
        if self._topics.pop(name, None) is None:
            raise ConfigurationError(f"there is no topic {name} to delete")
        self.topic_version += 1

    def put_broker(self, state: BrokerState) -> None:
        """Add a broker, or record that it moved, went down or came back."""
        if self._brokers.get(state.info.broker_id) != state:
            self._brokers[state.info.broker_id] = state
            self._brokers_changed()

    def remove_broker(self, broker_id: int) -> None:
        del self._brokers[broker_id]
        self._brokers_changed()

    def _brokers_changed(self) -> None:
        self.broker_version += 1
        self.topic_version += 1  # readers' lists of topics show which brokers can be read from

    def renew_versions(self, now_ms: int) -> None:
        """Start new version numbers, as a restarted master does."""
        self.broker_version = max(self.broker_version + 1, now_ms)
        self.topic_version = max(self.topic_version + 1, now_ms)
        self.visit_tokens.append(now_ms)

    def consumer_layouts(self, names: Iterable[str]) -> list[TopicLayout]:
        """The topics' layout for readers: on every broker; those that cannot be read from are not subscribable."""
        return [
            TopicLayout(
                *(name, broker.info.broker_id, topic.stores, topic.partitions),
                broker.online and topic.accept_subscribe,
            )
            for name in sorted(names)
            if (topic := self._topics.get(name))
            for broker in self.brokers()
        ]

    def producer_layouts(self, name: str) -> list[TopicLayout]:
        """One topic's layout for producers: only brokers that take messages."""
        topic = self._topics.get(name)
        if topic is None or not topic.accept_publish:
            return []
        return [
            TopicLayout(name, broker.info.broker_id, topic.stores, topic.partitions)
            for broker in self.brokers()
            if broker.online
        ]
