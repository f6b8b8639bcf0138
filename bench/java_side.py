"""The Java side: Apache's consumers in a JVM, doing what `our_side` does with ours.

Reading a topic is one stream of Java, built here and run by one call of py4j. So only that call is in the measured
time. In Java source it would be

    Stream.generate(ConsumeResult::new).filter(consumer::getMessage).peek(touch).filter(confirm).takeWhile(more)

with `touch` adding up `Message::getIndexId` and updating the partition's CRC-32 with `Message::getData`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.java_lambdas import JavaLambdas
from bench.measured import Drained, cpu_seconds
from tests.apache.java_client import JavaClientError
from tests.apache.java_gateway import JavaVM

__all__ = ["JavaSide"]

_CLIENT: Final = "org.apache.inlong.tubemq.client"
_RESULT: Final = f"{_CLIENT}.common.ConsumeResult"
_CONSUMER: Final = f"{_CLIENT}.consumer.ClientBalanceConsumer"
_MESSAGE: Final = "org.apache.inlong.tubemq.corebase.Message"
_STREAM: Final = "java.util.stream.Stream"

# Milliseconds that one call of isPartitionsReady and getMessage may take, and seconds that all of them may.
_SLICE_MS: Final = 5_000
_FIRST_MESSAGE_SECONDS: Final = 180.0


class JavaSide:
    """Apache's Java client on a cluster, in a JVM of its own; its settings are Java's defaults, except those set
    here."""

    def __init__(self, master: str, topic: str, workdir: Path, heap_mb: int) -> None:
        self._java = JavaVM(workdir, heap_mb)
        self._jvm = self._java.jvm
        self._lambdas = JavaLambdas(self._jvm)
        self._client = self._jvm.org.apache.inlong.tubemq.client
        self._master, self._topic = master, topic

    def close(self) -> None:
        self._java.close()

    def round_trip_seconds(self, calls: int = 200) -> float:
        """How long one call over py4j takes for which Java has nothing to do."""
        nothing = self._jvm.java.util.ArrayList()
        started = time.perf_counter()
        for _ in range(calls):
            nothing.size()
        return (time.perf_counter() - started) / calls

    def drain(self, group: str, messages: int, *, confirm_in_local: bool) -> Drained:
        """Read the whole topic, which holds so many messages, under a new group. JavaClientError if that fails."""
        with self._balance_consumer(group, confirm_in_local=confirm_in_local) as consumer:
            checksums = {key: self._jvm.java.util.zip.CRC32() for key in self._connect_all(consumer)}
            ids = self._jvm.java.util.LongSummaryStatistics()
            packs = self._reading(consumer, messages, ids, checksums)
            cpu, started = cpu_seconds(self._java.pid), time.perf_counter()
            whole_packs = packs.count() + 1  # the last one ends the stream
            seconds = time.perf_counter() - started
            cpu = cpu_seconds(self._java.pid) - cpu
            found = {key: checksum.getValue() for key, checksum in checksums.items()}
            return Drained.of(messages, whole_packs, ids.getSum(), found, seconds, cpu)

    def first_by_balance_consumer(self, group: str) -> float:
        """Seconds from `start` of a new group to a first message: ClientBalanceConsumer."""
        started = time.perf_counter()
        with self._balance_consumer(group, confirm_in_local=False) as consumer:
            self._connect_all(consumer)
            deadline = started + _FIRST_MESSAGE_SECONDS
            result = self._client.common.ConsumeResult()
            while not consumer.getMessage(result):
                self._check_time(deadline, result)
            seconds = time.perf_counter() - started
            self._check(consumer.confirmConsume(result.getConfirmContext(), True, self._confirm_result()), result)
            return seconds

    def first_by_pull_consumer(self, group: str) -> float:
        """Seconds from `start` of a new group to a first message: PullMessageConsumer, which the master balances."""
        started = time.perf_counter()
        config = self._config(group, confirm_in_local=False)
        factory = self._client.factory.TubeMultiSessionFactory(config)
        consumer = factory.createPullConsumer(config)
        try:
            consumer.subscribe(self._topic, self._jvm.java.util.TreeSet())
            consumer.completeSubscribe()
            deadline = started + _FIRST_MESSAGE_SECONDS
            while not consumer.isPartitionsReady(_SLICE_MS):
                self._check_time(deadline, None)
            while not (result := consumer.getMessage()).isSuccess():
                self._check_time(deadline, result)
            seconds = time.perf_counter() - started
            consumer.confirmConsume(result.getConfirmContext(), True)
            return seconds
        finally:
            consumer.shutdown()
            factory.shutdown()

    def _config(self, group: str, *, confirm_in_local: bool) -> Any:
        config = self._client.config.ConsumerConfig(self._master, group)
        config.setConsumePosition(self._client.consumer.ConsumePosition.CONSUMER_FROM_FIRST_OFFSET)
        # Where there is nothing to read, getMessage would wait 90 s by default, more than a call over py4j may take.
        config.setPullConsumeReadyWaitPeriodMs(_SLICE_MS)
        config.setPullConfirmInLocal(confirm_in_local)
        return config

    @contextmanager
    def _balance_consumer(self, group: str, *, confirm_in_local: bool) -> Iterator[Any]:
        """A started consumer of the topic, shut down at the end."""
        config = self._config(group, confirm_in_local=confirm_in_local)
        factory = self._client.factory.TubeMultiSessionFactory(config)
        consumer = factory.createBalanceConsumer(config)
        try:
            topics = self._jvm.java.util.HashMap()
            topics.put(self._topic, self._jvm.java.util.TreeSet())
            result = self._jvm.org.apache.inlong.tubemq.corebase.rv.ProcessResult()
            self._check(consumer.start(topics, -1, -1, result), result)
            yield consumer
        finally:
            consumer.shutdown()
            factory.shutdown()

    def _connect_all(self, consumer: Any) -> list[str]:
        """Connect all partitions of the topic and return their keys."""
        shown = self._client.common.QueryMetaResult()
        self._check(consumer.getPartitionMetaInfo(shown), shown)
        keys = sorted(shown.getPartStatusMap())
        for key in keys:
            result = self._jvm.org.apache.inlong.tubemq.corebase.rv.ProcessResult()
            self._check(consumer.connect2Partition(key, -1, result), result)
        return keys

    def _reading(self, consumer: Any, messages: int, ids: Any, checksums: Mapping[str, Any]) -> Any:
        """The stream that reads so many messages, adding to `ids` and to their partition's checksum.

        Its count is one less than the packs.
        """
        make, jvm = self._lambdas, self._jvm
        get = make.method(_CONSUMER, "getMessage", "boolean", _RESULT)
        [got] = make.bound_references("Predicate", get, consumer)
        list_of = make.method(_RESULT, "getMessageList", "java.util.List")
        stream_of = make.chain(list_of, make.method("java.util.List", "stream", _STREAM))

        id_of = make.reference("ToLongFunction", make.method(_MESSAGE, "getIndexId", "long"))
        to_longs = make.method(_STREAM, "mapToLong", "java.util.stream.LongStream", "java.util.function.ToLongFunction")
        total = make.method("java.util.stream.LongStream", "sum", "long")
        add = make.method("java.util.LongSummaryStatistics", "accept", "void", "long").bindTo(ids)
        touch_ids = make.chain(stream_of, make.with_arguments(to_longs, 1, id_of), total, add)

        data_of = make.reference("Function", make.method(_MESSAGE, "getData", "[B"))
        mapped = make.method(_STREAM, "map", _STREAM, "java.util.function.Function")
        update = make.method("java.util.zip.CRC32", "update", "void", "[B")
        updates = jvm.java.util.HashMap()
        for key, reference in zip(
            checksums, make.bound_references("Consumer", update, *checksums.values()), strict=True
        ):
            updates.put(key, reference)
        find = make.method("java.util.Map", "get", "java.lang.Object", "java.lang.Object").bindTo(updates)
        update_of = make.chain(
            make.method(_RESULT, "getPartitionKey", "java.lang.String"),
            make.as_type(find, "java.util.function.Consumer", "java.lang.String"),
        )
        for_each = make.method(_STREAM, "forEach", "void", "java.util.function.Consumer")
        touch_data = make.of_one(for_each, make.chain(stream_of, make.with_arguments(mapped, 1, data_of)), update_of)

        confirm = make.method(
            _CONSUMER, "confirmConsume", "boolean", "java.lang.String", "boolean", f"{_CLIENT}.common.ConfirmResult"
        )
        confirmed = make.chain(
            make.method(_RESULT, "getConfirmContext", "java.lang.String"),
            make.with_arguments(confirm.bindTo(consumer), 1, True, self._confirm_result()),
        )
        # A permit for each message but one: the pack that lacks one is the last.
        permits = jvm.java.util.concurrent.Semaphore(messages - 1)
        take = make.method("java.util.concurrent.Semaphore", "tryAcquire", "boolean", "int").bindTo(permits)
        more = make.chain(list_of, make.method("java.util.List", "size", "int"), take)
        return (
            jvm.java.util.stream.Stream.generate(make.reference("Supplier", make.constructor(_RESULT)))
            .limit(2 * messages + 1_000)  # ends, whatever happens
            .filter(got)
            .peek(make.proxy("Consumer", touch_ids))
            .peek(make.proxy("Consumer", touch_data))
            .filter(make.proxy("Predicate", confirmed))
            .takeWhile(make.proxy("Predicate", more))
        )

    def _confirm_result(self) -> Any:
        return self._client.common.ConfirmResult()

    @staticmethod
    def _check(done: bool, result: Any) -> None:
        if not done:
            raise JavaClientError("Apache's Java client", result.getErrCode(), result.getErrMsg())

    def _check_time(self, deadline: float, result: Any) -> None:
        if time.perf_counter() >= deadline:
            code, text = (404, "no partitions") if result is None else (result.getErrCode(), result.getErrMsg())
            raise JavaClientError(f"no message within {_FIRST_MESSAGE_SECONDS:.0f} s", code, text)
