"""A topic to read from: loads numbered messages, and has the options for reading them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.waiting import group_page, wait_for
from tubeclient.wire.payload import encode_attributes, encode_payload, java_string_hash

TIME = "202401020304"


@dataclass
class Feed:
    tube: EmbeddedTubeMQ
    topic: str
    partition_ids: list[int]
    sent: list[bytes] = field(default_factory=list)
    """All bodies, in the order of sending; each different."""
    label: str = "message"
    """What bodies begin with."""

    @classmethod
    def create(cls, tube: EmbeddedTubeMQ, topic: str, *, stores: int, partitions: int) -> Feed:
        tube.create_topic(TopicConfig(topic, stores=stores, partitions=partitions))
        return cls(tube, topic, [store * 10_000 + n for store in range(stores) for n in range(partitions)])

    def send(
        self, count: int, *, tags: Iterable[str] = ("",), partitions: Iterable[int] = (), time: str = TIME
    ) -> list[bytes]:
        """Append `count` messages of `time`, given to partitions and tags in turn; returns their bodies.

        Up to some thousands become visible at once.
        """
        first, ids, names = len(self.sent), list(partitions) or self.partition_ids, list(tags)
        bodies = [f"{self.label}-{number:06d}".encode() for number in range(first, first + count)]
        messages = []
        for number, body in enumerate(bodies):
            tag = names[number % len(names)]
            payload, flag = encode_payload(body, encode_attributes({"k": "v"}, tag, time))
            tag_hash = java_string_hash(tag) if tag else -1
            messages.append(NewMessage(ids[number % len(ids)], payload, flag, tag_hash))
        self.tube.load(self.topic, messages)
        self.sent += bodies
        return bodies

    def options(self, group: str = "", **more: object) -> dict[str, str]:
        """Options to read the topic as `group`, its own if none is named."""
        return {
            "masterServers": self.tube.master_address,
            "masterWebPort": str(self.tube.master_web_port),
            "consumerGroup": group or f"{self.topic}_group",
            "subscribe": self.topic,
            "sourceCount": "2",
            "groupJoinTimeout": "0s",
            **{name: str(value) for name, value in more.items()},
        }

    def held(self) -> dict[int, list[str]]:
        """The nodes of the topic's own group, and the partitions each was assigned, as the master's group page shows
        them."""
        return group_page(self.tube.master_web_port, f"{self.topic}_group")

    def wait_until_free(self) -> None:
        """Until the topic's own group has no members: Spark lets go of a query's process without waiting for its
        end."""
        wait_for(lambda: not self.held(), f"the nodes of {self.topic}_group to be given back")
