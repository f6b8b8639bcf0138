"""A producer's choice of partitions, and its calls to the master: it registers, and asks by heartbeats where its topics
can be written."""

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


class Routes:
    """Where the messages of a producer's topics go: to the writable partitions of each in turn. Some rest for a while
    after failures."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._partitions: dict[str, list[PartitionKey]] = {}
        self._brokers: Mapping[int, BrokerInfo] = {}
        self._failures: dict[PartitionKey, int] = {}
        self._resting_until_ms: dict[PartitionKey | int, float] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._next

    @property
    def topics(self) -> list[str]:
        """The published topics, sorted."""
        return sorted(list(self._next))  # noqa: C414  # copied in one step: another thread may add one meanwhile

    def partitions(self, topic: str) -> list[PartitionKey]:
        """The topic's writable partitions, sorted."""
        return self._partitions.get(topic, [])

    def publish(
        self, starts: Mapping[str, int], layouts: Iterable[TopicLayout], brokers: Mapping[int, BrokerInfo]
    ) -> list[str]:
        """Take layouts and brokers from the master, and add the topics of `starts` that can be written; returns the
        others, sorted. A start is any number, where the turn begins, so that producers do not all use the same
        order."""
        writable: dict[str, list[PartitionKey]] = {}
        for layout in layouts:
            if layout.broker_id in brokers and (keys := layout.partitions()):
                writable.setdefault(layout.topic, []).extend(keys)
        for topic in starts.keys() & writable:
            self._next.setdefault(topic, starts[topic])
        self._brokers = brokers
        self._partitions = {topic: sorted(keys) for topic, keys in writable.items() if topic in self._next}
        known = {key for keys in self._partitions.values() for key in keys}
        self._failures = {key: count for key, count in self._failures.items() if key in known}
        self._resting_until_ms = {
            key: until for key, until in self._resting_until_ms.items() if key in known or key in brokers
        }
        return sorted(starts.keys() - writable)

    def choose(self, topic: str, now_ms: float, avoid: PartitionKey | None = None) -> tuple[PartitionKey, BrokerInfo]:
        """Return the partition and broker of the topic's next message: the next one that does not rest, any if all
        rest. `avoid` is taken only if all others rest. PartitionUnavailable if there are no partitions."""
        keys = self.partitions(topic)
        count = len(keys)
        if count and avoid is None and not self._resting_until_ms:  # nearly always, and messages are many
            step = self._next[topic]
            self._next[topic] = step + 1
            key = keys[step % count]
            return key, self._brokers[key.broker_id]
        if not count:
            what = "the master lists no partition to write to" if topic in self else "the topic is not published"
            raise PartitionUnavailable(what, code=423, context=f"sending to topic {topic}")
        start = self._next[topic]
        for step in range(count):
            key = keys[(start + step) % count]
            if key != avoid and not self._rests(key, now_ms):
                break
        else:
            turn = [keys[(start + step) % count] for step in range(count)]
            awake = [key for key in turn if not self._rests(key, now_ms)]
            key = (awake or [key for key in turn if key != avoid] or turn)[0]
            step = turn.index(key)
        self._next[topic] = start + step + 1
        return key, self._brokers[key.broker_id]

    def _rests(self, key: PartitionKey, now_ms: float) -> bool:
        resting = self._resting_until_ms
        return bool(resting) and max(resting.get(key, 0), resting.get(key.broker_id, 0)) > now_ms

    def succeeded(self, keys: Iterable[PartitionKey]) -> None:
        """Partitions took messages: their failures are over, and their brokers' rests."""
        if self._failures or self._resting_until_ms:  # seldom, and messages are many
            for key in keys:
                self._failures.pop(key, None)
                self._resting_until_ms.pop(key.broker_id, None)

    def failed(self, key: PartitionKey, error: TubeError, now_ms: float) -> None:
        """Record the error, or the missing answer, of a partition's broker. The partition rests after more than three
        in a row. A broker that is unavailable as a whole rests at once, for all topics."""
        self._failures[key] = self._failures.get(key, 0) + 1
        if self._failures[key] > FAILURES_BEFORE_REST:
            self._failures[key] = 0
            self._resting_until_ms[key] = now_ms + PARTITION_REST_MS
        if isinstance(error, ServerBusy) and error.code == _UNAVAILABLE:
            self._resting_until_ms[key.broker_id] = now_ms + BROKER_REST_MS
        elif isinstance(error, ConnectError):
            self._resting_until_ms[key.broker_id] = now_ms + UNREACHABLE_REST_MS


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
        """Send a heartbeat, and learn where `topics` can be written now. Registers again if the master has forgotten
        this producer."""
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
        request = master_pb2.CloseRequestP2M(clientId=self._client_id)
        yield from call_master(self._masters, Method.PRODUCER_CLOSE, request)

    def _take_brokers(self, response: master_pb2.RegisterResponseM2P | master_pb2.HeartResponseM2P) -> None:
        if response.brokerInfos:
            brokers = (parse_broker(text, tls=self._masters.tls) for text in response.brokerInfos)
            self.brokers = {broker.broker_id: broker for broker in brokers}
        self._broker_check_sum = response.brokerCheckSum
        if response.HasField("appdConfig") and response.appdConfig.maxMsgSize > 0:
            self._cluster_max_bytes = response.appdConfig.maxMsgSize
