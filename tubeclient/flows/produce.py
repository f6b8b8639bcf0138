"""A producer's calls to the master: register, and ask by heartbeats where its topics can be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tubeclient.errors import ConnectError, PartitionUnavailable, RegistrationLost, ServerBusy, TubeError
from tubeclient.flows.effects import Flow, checked
from tubeclient.flows.master import UNDEFINED, MasterList, call_master
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.strings import parse_broker, parse_producer_layouts

FAILURES_BEFORE_REST = 3
PARTITION_REST_MS = 3_000
BROKER_REST_MS = 50_000
"""Rest of a broker that answered 503. Apache's producer has the same numbers (Partition, TubeClientConfig)."""

UNREACHABLE_REST_MS = 3_000
"""Rest of a broker that takes no connection: each try may cost the time limit of connecting."""

_UNAVAILABLE = 503


class PartitionChoice:
    """The partitions of one topic.

    `start` (any number) is where the round begins, so that producers do not all use the same order.
    """

    def __init__(self, topic: str, start: int) -> None:
        self._topic = topic
        self._next = start
        self._partitions: list[PartitionKey] = []
        self._failures: dict[PartitionKey, int] = {}
        self._resting_until_ms: dict[PartitionKey | int, float] = {}

    @property
    def partitions(self) -> list[PartitionKey]:
        """The writable partitions, sorted."""
        return self._partitions

    def update(self, layouts: Iterable[TopicLayout]) -> None:
        """Take the topic's layouts from the master."""
        self._partitions = sorted(
            key for layout in layouts if layout.topic == self._topic for key in layout.partitions()
        )
        known = {*self._partitions, *(key.broker_id for key in self._partitions)}
        self._failures = {key: count for key, count in self._failures.items() if key in known}
        self._resting_until_ms = {key: until for key, until in self._resting_until_ms.items() if key in known}

    def choose(self, now_ms: float, avoid: PartitionKey | None = None) -> PartitionKey:
        """Return the next partition that does not rest. If all rest, the next one. `avoid` is taken only if there is no
        other. PartitionUnavailable if there are no partitions.
        """
        if not self._partitions:
            raise PartitionUnavailable(
                "the master lists no partition to write to", code=423, context=f"sending to topic {self._topic}"
            )
        count = len(self._partitions)
        fallback = None
        for step in range(count):
            key = self._partitions[(self._next + step) % count]
            if self._rests(key, now_ms):
                continue
            if key != avoid:
                self._next += step + 1
                return key
            fallback = key
        if fallback is None and self._partitions[self._next % count] == avoid:
            self._next += 1
        self._next += 1
        return fallback or self._partitions[(self._next - 1) % count]

    def _rests(self, key: PartitionKey, now_ms: float) -> bool:
        resting = self._resting_until_ms
        return bool(resting) and max(resting.get(key, 0), resting.get(key.broker_id, 0)) > now_ms

    def succeeded(self, key: PartitionKey) -> None:
        """A partition took a message: reset its failures, and its broker's rest."""
        if self._failures or self._resting_until_ms:  # seldom, and this runs for each message
            self._failures.pop(key, None)
            self._resting_until_ms.pop(key.broker_id, None)

    def failed(self, key: PartitionKey, now_ms: float) -> None:
        """Count a failure: the partition rests after more than three in a row."""
        self._failures[key] = self._failures.get(key, 0) + 1
        if self._failures[key] > FAILURES_BEFORE_REST:
            self._failures[key] = 0
            self._resting_until_ms[key] = now_ms + PARTITION_REST_MS

    def rest_broker(self, broker_id: int, until_ms: float) -> None:
        """Let all partitions of a broker rest."""
        self._resting_until_ms[broker_id] = until_ms


class Routes:
    """The partitions and brokers of all topics of a producer."""

    def __init__(self) -> None:
        self._choices: dict[str, PartitionChoice] = {}
        self._brokers: Mapping[int, BrokerInfo] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._choices

    @property
    def topics(self) -> list[str]:
        """The added topics, sorted."""
        return sorted(list(self._choices))  # noqa: C414  # copied in one step: another thread may add one meanwhile

    def add(self, topic: str, start: int) -> None:
        """Add a topic; the next `update` adds its partitions. `start` as for PartitionChoice."""
        self._choices.setdefault(topic, PartitionChoice(topic, start))

    def is_writable(self, topic: str) -> bool:
        """Whether the topic was added and has partitions now."""
        choice = self._choices.get(topic)
        return choice is not None and bool(choice.partitions)

    def update(self, layouts: Iterable[TopicLayout], brokers: Mapping[int, BrokerInfo]) -> None:
        """Take layouts and brokers from the master."""
        known = [layout for layout in layouts if layout.broker_id in brokers]
        self._brokers = brokers
        for choice in self._choices.values():
            choice.update(known)

    def publish(
        self, starts: Mapping[str, int], layouts: Iterable[TopicLayout], brokers: Mapping[int, BrokerInfo]
    ) -> list[str]:
        """Take layouts and brokers, and add the topics of `starts` that can be written; returns the others, sorted.
        `starts` as for PartitionChoice. Existing topics stay."""
        layouts = list(layouts)
        writable = {layout.topic for layout in layouts if layout.broker_id in brokers and layout.partitions()}
        for topic in starts.keys() & writable:
            self.add(topic, starts[topic])
        self.update(layouts, brokers)
        return sorted(starts.keys() - writable)

    def choose(self, topic: str, now_ms: float, avoid: PartitionKey | None = None) -> tuple[PartitionKey, BrokerInfo]:
        """Return the partition and broker of the topic's next message; raises as PartitionChoice.choose does."""
        if topic not in self._choices:
            raise PartitionUnavailable("the topic is not published", code=423, context=f"sending to topic {topic}")
        key = self._choices[topic].choose(now_ms, avoid)
        return key, self._brokers[key.broker_id]

    def succeeded(self, key: PartitionKey) -> None:
        """A partition took a message."""
        if key.topic in self._choices:
            self._choices[key.topic].succeeded(key)

    def failed(self, key: PartitionKey, error: TubeError, now_ms: float) -> None:
        """Record the error, or the missing answer, of a partition's broker.

        A broker that is unavailable as a whole rests at once, for all topics.
        """
        if key.topic in self._choices:
            self._choices[key.topic].failed(key, now_ms)
        rest_ms = 0
        if isinstance(error, ServerBusy) and error.code == _UNAVAILABLE:
            rest_ms = BROKER_REST_MS
        elif isinstance(error, ConnectError):
            rest_ms = UNREACHABLE_REST_MS
        if rest_ms:
            for choice in self._choices.values():
                choice.rest_broker(key.broker_id, now_ms + rest_ms)


_NOT_READY = 201

DEFAULT_MAX_MESSAGE_BYTES = 1 << 20
"""A cluster's limit for a payload if it names no other (maxMsgSizeInMB = 1)."""


class ProducerSession:
    """What a producer knows of the cluster. Its methods are flows that refresh it."""

    def __init__(self, masters: MasterList, client_id: str, host_name: str) -> None:
        self.brokers: dict[int, BrokerInfo] = {}
        self.layouts: list[TopicLayout] = []
        self._masters = masters
        self._client_id = client_id
        self._host_name = host_name
        self._broker_check_sum = -1
        self._cluster_max_bytes = DEFAULT_MAX_MESSAGE_BYTES
        self._topic_max_bytes: dict[str, int] = {}

    def max_message_bytes(self, topic: str) -> int:
        """The topic's largest payload, including attributes."""
        return self._topic_max_bytes.get(topic, self._cluster_max_bytes)

    def register(self) -> Flow[None]:
        """Register the producer; the answer has the brokers."""
        request = master_pb2.RegisterRequestP2M(
            clientId=self._client_id,
            brokerCheckSum=-1,
            hostName=self._host_name,
            appdConfig=master_pb2.ApprovedClientConfig(configId=UNDEFINED),
        )
        response = yield from call_master(self._masters, Method.PRODUCER_REGISTER, request)
        self._take_brokers(checked(response, "registering a producer"))

    def refresh(self, topics: Sequence[str]) -> Flow[None]:
        """Send a heartbeat, and learn where `topics` can be written now.

        Registers again if the master has forgotten this producer.
        """
        request = master_pb2.HeartRequestP2M(
            clientId=self._client_id,
            brokerCheckSum=self._broker_check_sum,
            hostName=self._host_name,
            topicList=sorted(topics),
            appdConfig=master_pb2.ApprovedClientConfig(configId=UNDEFINED),
        )
        response = yield from call_master(self._masters, Method.PRODUCER_HEARTBEAT, request)
        if response.errCode == _NOT_READY:
            return  # the master has just started; its earlier answer is still valid
        try:
            checked(response, f"publishing to {', '.join(topics)}")
        except RegistrationLost:
            yield from self.register()
            response = yield from call_master(self._masters, Method.PRODUCER_HEARTBEAT, request)
            checked(response, f"publishing to {', '.join(topics)}")
        self._take_brokers(response)
        self.layouts, self._topic_max_bytes = parse_producer_layouts(response.topicInfos)

    def close(self) -> Flow[None]:
        """Unregister from the master."""
        yield from call_master(
            self._masters, Method.PRODUCER_CLOSE, master_pb2.CloseRequestP2M(clientId=self._client_id)
        )

    def _take_brokers(self, response: master_pb2.RegisterResponseM2P | master_pb2.HeartResponseM2P) -> None:
        if response.brokerInfos:
            brokers = (parse_broker(text, tls=self._masters.tls) for text in response.brokerInfos)
            self.brokers = {broker.broker_id: broker for broker in brokers}
        self._broker_check_sum = response.brokerCheckSum
        if response.HasField("appdConfig") and response.appdConfig.maxMsgSize > 0:
            self._cluster_max_bytes = response.appdConfig.maxMsgSize
