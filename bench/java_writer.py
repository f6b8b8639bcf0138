"""Apache's Java producer in a JVM, sending as fast as it can: what `our_writing` does with ours.

All messages are sent by one call of py4j. In Java source it would be

    bodies.forEach(body -> {
        permits.acquireUninterruptibly();
        Message message = new Message(topic, body);
        message.putSystemHeader(tag, time);
        message.setAttrKeyVal(key, value);
        producer.sendMessage(message, callback);
    });

with a callback that keeps its result and releases a permit. So as many messages are in flight as our producer has.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from bench.java_lambdas import JavaLambdas
from bench.measured import cpu_seconds
from bench.written import ATTRIBUTES, IN_FLIGHT, TAG, TIME, Written, bodies
from tests.apache.java_client import JavaClientError, JavaProducer
from tests.apache.java_gateway import JavaVM

__all__ = ["JavaWriter"]

_HEAP_MB: Final = 1_024
_DIFFERENT_BODIES: Final = 1_000
_ANSWER_SECONDS: Final = 30
_STRING: Final = "java.lang.String"
_CORE: Final = "org.apache.inlong.tubemq.corebase"
_PRODUCER: Final = "org.apache.inlong.tubemq.client.producer"
_MESSAGE, _RESULT, _CALLBACK = f"{_CORE}.Message", f"{_PRODUCER}.MessageSentResult", f"{_PRODUCER}.MessageSentCallback"
_CONSUMER, _FUNCTION, _PREDICATE = "Consumer", "Function", "Predicate"


class JavaWriter:
    """A producer of one topic in a JVM of its own. A context manager."""

    def __init__(self, master: str, topic: str, workdir: Path) -> None:
        self._java = JavaVM(workdir, _HEAP_MB)
        try:
            self._jvm = self._java.jvm
            self._producer = JavaProducer(self._java, master).publish([topic])
            self._make = JavaLambdas(self._jvm)
            self._permits = self._jvm.java.util.concurrent.Semaphore(IN_FLIGHT)
            self._answers = self._jvm.java.util.concurrent.ConcurrentLinkedQueue()
            self._messages = self._message_maker(topic)
            self._send = self._sender()
            self._is_result, self._is_good = self._goodness()
        except BaseException:
            self._java.close()
            raise

    def write(self, messages: int, body_bytes: int) -> Written:
        """Send so many messages and wait for all answers. JavaClientError: they do not come."""
        some = self._bodies(messages, body_bytes)
        cpu, started = cpu_seconds(self._java.pid), time.perf_counter()
        some.stream().map(self._messages).forEach(self._send)
        if not self._permits.tryAcquire(IN_FLIGHT, _ANSWER_SECONDS, self._jvm.java.util.concurrent.TimeUnit.SECONDS):
            raise JavaClientError(f"no answers within {_ANSWER_SECONDS} s", 0, str(self._permits))
        seconds, cpu = time.perf_counter() - started, cpu_seconds(self._java.pid) - cpu
        self._permits.release(IN_FLIGHT)
        acknowledged = self._answers.stream().filter(self._is_result).filter(self._is_good).count()
        self._answers.clear()
        return Written(messages, int(acknowledged), seconds, cpu)

    def close(self) -> None:
        self._producer.close()
        self._java.close()

    def __enter__(self) -> JavaWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bodies(self, messages: int, body_bytes: int) -> Any:
        """A list in Java: some different ones, again and again."""
        some = self._jvm.java.util.ArrayList()
        for body in bodies(min(messages, _DIFFERENT_BODIES), body_bytes):
            some.add(body)
        every = self._jvm.java.util.ArrayList(messages)
        for _ in range(messages // _DIFFERENT_BODIES):
            every.addAll(some)
        every.addAll(some.subList(0, messages - every.size()))
        return every

    def _message_maker(self, topic: str) -> Any:
        """Body to message, with tag, time and attribute."""
        make = self._make
        new = make.with_arguments(make.constructor(_MESSAGE, _STRING, "[B"), 0, topic)
        header = make.method(_MESSAGE, "putSystemHeader", "void", _STRING, _STRING)
        attribute = make.method(_MESSAGE, "setAttrKeyVal", "void", _STRING, _STRING)
        [(key, value)] = ATTRIBUTES.items()
        named = make.both(make.with_arguments(header, 1, TAG, TIME), make.with_arguments(attribute, 1, key, value))
        return make.proxy(_FUNCTION, make.chain(new, make.both(named, make.identity(_MESSAGE))))

    def _sender(self) -> Any:
        """A permit, then a send whose callback keeps the result and releases the permit."""
        make, permits = self._make, "java.util.concurrent.Semaphore"
        acquire = make.method(permits, "acquireUninterruptibly", "void").bindTo(self._permits)
        release = make.method(permits, "release", "void").bindTo(self._permits)
        keep = make.method("java.util.Collection", "add", "boolean", "java.lang.Object").bindTo(self._answers)
        kept = make.as_type(keep, "void", "java.lang.Object")
        callback = make.listener(_CALLBACK, make.both(kept, make.ignoring(release, 0, "java.lang.Object")))
        send = make.method(f"{_PRODUCER}.MessageProducer", "sendMessage", "void", _MESSAGE, _CALLBACK)
        sent = make.with_arguments(send.bindTo(self._producer.of_java), 1, callback)
        return make.proxy(_CONSUMER, make.both(make.ignoring(acquire, 0, _MESSAGE), sent))

    def _goodness(self) -> tuple[Any, Any]:
        """Whether a callback's argument is a result and no error, and whether that one tells of a success."""
        make = self._make
        is_result = make.method("java.lang.Class", "isInstance", "boolean", "java.lang.Object")
        of_success = make.as_type(make.method(_RESULT, "isSuccess", "boolean"), "boolean", "java.lang.Object")
        return make.proxy(_PREDICATE, is_result.bindTo(make.class_of(_RESULT))), make.proxy(_PREDICATE, of_success)
