"""One JVM with Apache's Java producer and ClientBalanceConsumer (tubemq-client 1.13.0), driven over py4j without Java
source of our own, with Python's types at the border.

Every call is bounded on the Java side (RPC 10 s, fetch `FETCH_WAIT_MS`), and above that by py4j's read timeout.
Class and method names are those of TubeMQ's public Java API.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway

from tests.apache.jars import pyspark_jar
from tests.apache.jvm import JvmProcess

# Milliseconds: one request's answer; how long getMessage waits for a partition that is neither in use nor resting.
_RPC_TIMEOUT_MS: Final = 10_000
FETCH_WAIT_MS: Final = 1_000
# Milliseconds between two questions for the partitions of a group; the Java default is 10 000.
_META_PERIOD_MS: Final = 500
# How often a master's refusal is heard before it counts, and milliseconds between; 5 times and 1 000 by default.
_REGISTER_TRIES, _REGISTER_PAUSE_MS = 3, 300

# getMessage: moved, nothing new, nothing connected, all partitions resting or in use, speed limit. Try again.
_NOTHING_NOW: Final = frozenset({301, 404, 405, 406, 407, 408, 452})


_START_TIMEOUT: Final = 30.0
# Seconds any one py4j call may take. Above every Java-side limit that the wrappers set, so that Java's own error, which
# says what happened, comes first.
CALL_TIMEOUT: Final = 60.0


class JavaVM:
    """A JVM whose class path is TubeMQ's jars and py4j's; ends with this Python process, even if that is killed."""

    def __init__(self, workdir: Path, heap_mb: int = 256) -> None:
        self._process = JvmProcess(
            "java-client",
            "py4j.GatewayServer",
            # Loopback is py4j's default; port 0 is any free one; it prints port and token on its first two lines.
            ["--die-on-broken-pipe", "--enable-auth", "0"],
            workdir,
            heap_mb,
            extra_jars=[pyspark_jar("py4j")],
            hold_stdin=True,
        )
        self._gateway: JavaGateway | None = None

    @property
    def jvm(self) -> Any:
        """The root of Java packages: `java.jvm.java.util.HashMap()`. Starts the JVM at the first use (0.2 s)."""
        if self._gateway is None:
            self._gateway = self._start()
        return self._gateway.jvm

    @property
    def pid(self) -> int | None:
        """Of the JVM while it runs."""
        return self._process.pid

    def close(self) -> None:
        """Ends the JVM; bounded by 10 s."""
        if self._gateway is not None:
            # Closes our sockets, and asks the server to end; the pipe's end would make it anyway.
            self._gateway.shutdown()
            self._gateway = None
        self._process.close_stdin()
        self._process.terminate(timeout=5.0)

    def _start(self) -> JavaGateway:
        self._process.start()
        port, token = self._process.wait_for("py4j's port and token", self._port_and_token, _START_TIMEOUT)
        parameters = GatewayParameters(port=port, auth_token=token, read_timeout=CALL_TIMEOUT)
        return JavaGateway(gateway_parameters=parameters)

    def _port_and_token(self) -> tuple[int, str] | None:
        lines = self._process.output_file.read_text().split("\n")
        # Three parts: the third, empty or not, shows that the second line is whole.
        return (int(lines[0]), lines[1]) if len(lines) >= 3 else None


class JavaClientError(RuntimeError):
    """The Java client said no: TubeMQ's error code (see TErrCodeConstants) and its text."""

    def __init__(self, what: str, code: int, text: str) -> None:
        super().__init__(f"{what}: {code} {text}")
        self.code = code


@dataclass(frozen=True)
class JavaSent:
    """Where a message went. `append_offset` is its index offset (28 bytes a message), `append_time_ms` the broker's."""

    message_id: int
    partition_key: str
    append_offset: int
    append_time_ms: int


@dataclass(frozen=True)
class JavaMessage:
    """A message as the Java consumer gives it; `attribute` is the whole text, system headers included."""

    payload: bytes
    attribute: str | None
    message_id: int

    @property
    def attributes(self) -> dict[str, str]:
        """All attributes, `$msgType$` and `$msgTime$` among them."""
        items = (item.partition("=") for item in (self.attribute or "").split(",") if item)
        return {key: value for key, _, value in items}

    @property
    def tag(self) -> str | None:
        return self.attributes.get("$msgType$")

    @property
    def msg_time(self) -> str | None:
        """yyyyMMddHHmm, as the producer wrote it."""
        return self.attributes.get("$msgTime$")


@dataclass(frozen=True)
class JavaPack:
    """One answer of getMessage; its partition stays locked until `confirm(confirm_context)`."""

    partition_key: str
    topic: str
    messages: list[JavaMessage]
    confirm_context: str
    # Index offset at which this pack starts, and the end of the index, as the broker told.
    curr_offset: int
    max_offset: int


def _client_settings(config: Any) -> Any:
    config.setRpcTimeoutMs(_RPC_TIMEOUT_MS)
    config.setMaxRegisterRetryTimes(_REGISTER_TRIES)
    config.setRegFailWaitPeriodMs(_REGISTER_PAUSE_MS)
    return config


class JavaProducer:
    """MessageProducer. Its topics' brokers are learnt at `publish` and then every 13 s, as in any Java program."""

    def __init__(self, java: JavaVM, master: str) -> None:
        self._jvm = java.jvm
        client = self._jvm.org.apache.inlong.tubemq.client
        # A factory of its own: TubeMQ's single-session one keeps the first cluster's address for the JVM's life.
        config = _client_settings(client.config.TubeClientConfig(master))
        self._factory = client.factory.TubeMultiSessionFactory(config)
        self._producer = self._factory.createProducer()

    @property
    def of_java(self) -> Any:
        """The MessageProducer, for what is put together inside the JVM."""
        return self._producer

    def publish(self, topics: Iterable[str]) -> JavaProducer:
        """Declares the topics; JavaClientError if the master does not offer all of them."""
        wanted = self._jvm.java.util.TreeSet()
        names = sorted(set(topics))
        for name in names:
            wanted.add(name)
        accepted = set(self._producer.publish(wanted))
        if accepted != set(names):
            raise JavaClientError("publish", 0, f"not accepted: {sorted(set(names) - accepted)}")
        return self

    def send(
        self,
        topic: str,
        body: bytes,
        attributes: Mapping[str, str] | None = None,
        tag: str | None = None,
        msg_time: str | None = None,
    ) -> JavaSent:
        """Sends one message and waits for the broker's answer; msg_time is yyyyMMddHHmm."""
        message = self._jvm.org.apache.inlong.tubemq.corebase.Message(topic, body)
        if tag is not None or msg_time is not None:
            message.putSystemHeader(tag, msg_time)
        for key, value in (attributes or {}).items():
            message.setAttrKeyVal(key, value)
        result = self._producer.sendMessage(message)
        if not result.isSuccess():
            raise JavaClientError(f"send to {topic}", result.getErrCode(), result.getErrMsg())
        partition_key = result.getPartition().getPartitionKey()
        return JavaSent(result.getMessageId(), partition_key, result.getAppendOffset(), result.getAppendTime())

    def close(self) -> None:
        self._producer.shutdown()
        self._factory.shutdown()


class JavaBalanceConsumer:
    """ClientBalanceConsumer: the caller assigns partitions, connects them at offsets, fetches and confirms."""

    def __init__(
        self, java: JavaVM, master: str, group: str, *, from_first: bool = True, heartbeat_ms: int | None = None
    ) -> None:
        """`from_first`: a group without a position starts at the oldest message; Java's default is the newest.

        `heartbeat_ms` is how often it reports to the master; Java's default is 13 000.
        """
        self._jvm = java.jvm
        self._client = self._jvm.org.apache.inlong.tubemq.client
        config = _client_settings(self._client.config.ConsumerConfig(master, group))
        positions = self._client.consumer.ConsumePosition
        config.setConsumePosition(
            positions.CONSUMER_FROM_FIRST_OFFSET if from_first else positions.CONSUMER_FROM_LATEST_OFFSET
        )
        if heartbeat_ms is not None:
            config.setHeartbeatPeriodMs(heartbeat_ms)
        config.setPullConsumeReadyWaitPeriodMs(FETCH_WAIT_MS)
        config.setPartMetaInfoCheckPeriodMs(_META_PERIOD_MS)
        self._factory = self._client.factory.TubeMultiSessionFactory(config)
        self._consumer = self._factory.createBalanceConsumer(config)
        self._nothing = ""
        """Why there was no pack the last time."""

    def start(
        self, topics: Mapping[str, Sequence[str]], source_count: int = -1, node_id: int = -1
    ) -> JavaBalanceConsumer:
        """Registers at the master. `topics`: name to filter tags (empty: all messages); -1 is "not set"."""
        subscribed = self._jvm.java.util.HashMap()
        for topic, tags in topics.items():
            filters = self._jvm.java.util.TreeSet()
            for tag in tags:
                filters.add(tag)
            subscribed.put(topic, filters)
        result = self._process_result()
        self._check("start", self._consumer.start(subscribed, source_count, node_id, result), result)
        return self

    @property
    def of_java(self) -> Any:
        """The ClientBalanceConsumer, for what is put together inside the JVM."""
        return self._consumer

    @property
    def consumer_id(self) -> str:
        return str(self._consumer.getConsumerId())

    def partition_meta(self) -> dict[str, bool]:
        """Partition key ("brokerId:topic:partitionId") to "may be subscribed"."""
        result = self._client.common.QueryMetaResult()
        self._check("partition meta", self._consumer.getPartitionMetaInfo(result), result)
        return {str(key): bool(status) for key, status in result.getPartStatusMap().items()}

    def await_partitions(self, count: int, timeout: float = 20.0) -> list[str]:
        """The keys of at least `count` subscribable partitions, sorted; JavaClientError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            keys = sorted(key for key, usable in self.partition_meta().items() if usable)
            if len(keys) >= count:
                return keys
            if time.monotonic() >= deadline:
                raise JavaClientError(f"no {count} partitions within {timeout:.0f} s", 404, str(keys))
            time.sleep(_META_PERIOD_MS / 1000)

    def connect(self, partition_key: str, offset: int = -1) -> None:
        """Registers at the broker. offset >= 0 replaces the group's position, < 0 keeps it."""
        result = self._process_result()
        done = self._consumer.connect2Partition(partition_key, offset, result)
        self._check(f"connect {partition_key}", done, result)

    def connected(self) -> set[str]:
        return {str(key) for key in self._consumer.getCurRegisteredPartSet()}

    def get_message(self) -> JavaPack | None:
        """The next pack of any connected partition; None if there is nothing within about FETCH_WAIT_MS."""
        result = self._client.common.ConsumeResult()
        if not self._consumer.getMessage(result):
            if result.getErrCode() in _NOTHING_NOW:
                self._nothing = f"{result.getErrCode()} {result.getErrMsg()}"
                return None
            raise JavaClientError("getMessage", result.getErrCode(), result.getErrMsg())
        return _pack(result)

    def next_pack(self, timeout: float = 30.0) -> JavaPack:
        """The next pack that has messages, not confirmed; those without are. JavaClientError after `timeout` s."""
        deadline = time.monotonic() + timeout
        while True:
            pack = self.get_message()
            if pack is not None and pack.messages:
                return pack
            if pack is not None:
                self.confirm(pack.confirm_context)
            if time.monotonic() >= deadline:
                last = "a pack without messages" if pack is not None else self._nothing
                raise JavaClientError(f"no messages within {timeout:.0f} s", 404, f"(at last: {last})")

    def confirm(self, confirm_context: str, consumed: bool = True) -> int:
        """Commits the pack (or rolls it back); returns the position committed, its exclusive end."""
        result = self._client.common.ConfirmResult()
        self._check("confirm", self._consumer.confirmConsume(confirm_context, consumed, result), result)
        return int(result.getCurrOffset())

    def drain(self, count: int, timeout: float = 30.0) -> list[tuple[str, JavaMessage]]:
        """Fetches and confirms until `count` (partition key, message) pairs came; JavaClientError after `timeout` s."""
        deadline = time.monotonic() + timeout
        got: list[tuple[str, JavaMessage]] = []
        while len(got) < count:
            try:
                pack = self.next_pack(deadline - time.monotonic())
            except JavaClientError as error:
                raise JavaClientError(
                    f"{len(got)} of {count} messages within {timeout:.0f} s", error.code, ""
                ) from error
            got += [(pack.partition_key, message) for message in pack.messages]
            self.confirm(pack.confirm_context)
        return got

    def disconnect(self, partition_key: str) -> None:
        result = self._process_result()
        done = self._consumer.disconnectFromPartition(partition_key, result)
        self._check(f"disconnect {partition_key}", done, result)

    def close(self) -> None:
        """Unregisters at brokers and master; unconfirmed packs are rolled back."""
        self._consumer.shutdown()
        self._factory.shutdown()

    def _process_result(self) -> Any:
        return self._jvm.org.apache.inlong.tubemq.corebase.rv.ProcessResult()

    @staticmethod
    def _check(what: str, done: bool, result: Any) -> None:
        if not done:
            raise JavaClientError(what, result.getErrCode(), result.getErrMsg())


def _pack(result: Any) -> JavaPack:
    return JavaPack(
        str(result.getPartitionKey()),
        str(result.getTopicName()),
        [JavaMessage(m.getData(), m.getAttribute(), m.getIndexId()) for m in result.getMessageList()],
        str(result.getConfirmContext()),
        result.getCurrOffset(),
        result.getMaxOffset(),
    )
