"""Apache's Java client in a JVM of its own, reading and sending as fast as it can.

There is no Java source here. Java's loop is a `java.util.stream.Stream` of method handles that are made over py4j and
run by one call of it, so that no call goes over py4j for a pack or a message. Settings are Java's defaults, except
those of tests/apache/java_client.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, Final

from bench.measuring import COST, cpu_seconds, timed
from tests.apache.java_client import JavaBalanceConsumer, JavaClientError, JavaProducer, JavaVM

__all__ = ["ATTRIBUTES", "DIFFERENT_BODIES", "IN_FLIGHT", "TAG", "TIME", "JavaReader", "JavaWriter"]

TAG, TIME = "clicks", "202601021530"
ATTRIBUTES: Final = {"source": "web"}
IN_FLIGHT: Final = 1_000
"""The default of our Producer; Java's gets as many."""

DIFFERENT_BODIES: Final = 1_000
"""That a JavaWriter sends, again and again."""
_HEAP_MB: Final = 1_024
_ANSWER_SECONDS: Final = 30
_STRING: Final = "java.lang.String"
_OBJECT: Final = "java.lang.Object"
_NUMBER: Final = "java.math.BigInteger"
_SEMAPHORE: Final = "java.util.concurrent.Semaphore"
_CLIENT: Final = "org.apache.inlong.tubemq.client"
_MESSAGE: Final = "org.apache.inlong.tubemq.corebase.Message"
_CONSUMER: Final = f"{_CLIENT}.consumer.ClientBalanceConsumer"
_CONSUMED, _CONFIRMED = f"{_CLIENT}.common.ConsumeResult", f"{_CLIENT}.common.ConfirmResult"
_PRODUCER: Final = f"{_CLIENT}.producer.MessageProducer"
_SENT, _CALLBACK = f"{_CLIENT}.producer.MessageSentResult", f"{_CLIENT}.producer.MessageSentCallback"


class JavaReader:
    """Reads one topic with ClientBalanceConsumer."""

    def __init__(self, master: str, topic: str, workdir: Path) -> None:
        self._java = JavaVM(workdir, _HEAP_MB)
        self._master, self._topic = master, topic

    def __enter__(self) -> JavaReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._java.close()

    def read(self, name: Callable[[str], str], messages: int) -> Mapping[str, float]:
        """Read the whole topic, which holds so many messages, under a new group, and confirm each pack. In Java source:

        Stream.generate(ConsumeResult::new).filter(consumer::getMessage).filter(confirm).takeWhile(more).count()
        """
        with self._consumer(name) as consumer:
            stream = self._stream(consumer, messages).takeWhile(self._more(messages))
            cpu = _cpu(self._java)
            with timed() as reading:
                stream.count()
            cpu = _cpu(self._java) - cpu
        return {"k rows/s": messages / reading.seconds / 1000, COST: cpu * 1e6 / messages}

    def check(self, name: Callable[[str], str], messages: int) -> None:
        """RuntimeError: a whole read gets other bodies than the numbers up to `messages`. Bodies go into a set."""
        jvm, make = self._java.jvm, _Handles(self._java.jvm)
        numbers = jvm.java.util.HashSet()
        number = make.chain(
            make.method(_MESSAGE, "getData", "[B"),
            make.constructor(_STRING, "[B"),
            make.constructor(_NUMBER, _STRING),
            make.as_type(make.method("java.util.Set", "add", "boolean", _OBJECT).bindTo(numbers), "void", _NUMBER),
        )
        each = make.with_arguments(
            make.method("java.lang.Iterable", "forEach", "void", "java.util.function.Consumer"),
            1,
            make.function("Consumer", number),
        )
        messages_of = make.as_type(
            make.method(_CONSUMED, "getMessageList", "java.util.List"), "java.lang.Iterable", _CONSUMED
        )
        keep = make.function("Consumer", make.chain(messages_of, each))
        with self._consumer(name) as consumer:
            self._stream(consumer, messages).peek(keep).takeWhile(self._more(messages)).count()
        add = make.function("BinaryOperator", make.method(_NUMBER, "add", _NUMBER, _NUMBER))
        total = numbers.stream().reduce(getattr(jvm, _NUMBER).ZERO, add).longValueExact()
        if (numbers.size(), total) != (messages, sum(range(messages))):
            raise RuntimeError(f"Java's consumer has {numbers.size()} different bodies, not {messages}, or others")

    @contextmanager
    def _consumer(self, name: Callable[[str], str]) -> Iterator[Any]:
        consumer = JavaBalanceConsumer(self._java, self._master, name("group")).start({self._topic: []})
        try:
            for key in consumer.await_partitions(1):
                consumer.connect(key)
            yield consumer.of_java
        finally:
            consumer.close()

    def _stream(self, consumer: Any, messages: int) -> Any:
        """Packs that were got and confirmed."""
        jvm, make = self._java.jvm, _Handles(self._java.jvm)
        got = make.method(_CONSUMER, "getMessage", "boolean", _CONSUMED).bindTo(consumer)
        confirm = make.method(_CONSUMER, "confirmConsume", "boolean", _STRING, "boolean", _CONFIRMED).bindTo(consumer)
        result = jvm.org.apache.inlong.tubemq.client.common.ConfirmResult()
        confirmed = make.chain(
            make.method(_CONSUMED, "getConfirmContext", _STRING), make.with_arguments(confirm, 1, True, result)
        )
        return (
            jvm.java.util.stream.Stream.generate(make.function("Supplier", make.constructor(_CONSUMED)))
            .limit(2 * messages + 1_000)  # ends, whatever happens
            .filter(make.function("Predicate", got))
            .filter(make.function("Predicate", confirmed))
        )

    def _more(self, messages: int) -> Any:
        """A permit for each message but one: the pack that lacks one is the last."""
        make = _Handles(self._java.jvm)
        permits = self._java.jvm.java.util.concurrent.Semaphore(messages - 1)
        more = make.chain(
            make.method(_CONSUMED, "getMessageList", "java.util.List"),
            make.method("java.util.List", "size", "int"),
            make.method(_SEMAPHORE, "tryAcquire", "boolean", "int").bindTo(permits),
        )
        return make.function("Predicate", more)


class JavaWriter:
    """A producer of one topic."""

    def __init__(self, master: str, topic: str, workdir: Path) -> None:
        self._java = JavaVM(workdir, _HEAP_MB)
        try:
            jvm = self._java.jvm
            self._producer = JavaProducer(self._java, master).publish([topic])
            self._make = _Handles(jvm)
            self._permits = jvm.java.util.concurrent.Semaphore(IN_FLIGHT)
            self._answers = jvm.java.util.concurrent.ConcurrentLinkedQueue()
            self._messages, self._send = self._message_maker(topic), self._sender()
        except BaseException:
            self._java.close()
            raise

    def __enter__(self) -> JavaWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()
        self._java.close()

    def write(self, messages: int, body_bytes: int) -> Mapping[str, float]:
        """Send so many messages and wait for all answers. JavaClientError: they do not come, or a message is refused.

        In Java source, with a callback that keeps its result and releases a permit:

        bodies.forEach(body -> { permits.acquire(); producer.sendMessage(message(body), callback); });
        """
        some = self._bodies(messages, body_bytes)
        cpu = _cpu(self._java)
        with timed() as writing:
            some.stream().map(self._messages).forEach(self._send)
            unit = self._java.jvm.java.util.concurrent.TimeUnit.SECONDS
            if not self._permits.tryAcquire(IN_FLIGHT, _ANSWER_SECONDS, unit):
                raise JavaClientError(f"no answers within {_ANSWER_SECONDS} s", 0, str(self._permits))
        cpu = _cpu(self._java) - cpu
        self._permits.release(IN_FLIGHT)
        make = self._make
        is_sent = make.method("java.lang.Class", "isInstance", "boolean", _OBJECT).bindTo(make.class_of(_SENT))
        is_good = make.as_type(make.method(_SENT, "isSuccess", "boolean"), "boolean", _OBJECT)
        good = self._answers.stream().filter(make.function("Predicate", is_sent))
        acknowledged = good.filter(make.function("Predicate", is_good)).count()
        self._answers.clear()
        if acknowledged != messages:
            raise JavaClientError(f"{acknowledged} of {messages} messages were acknowledged", 0, "")
        return {"k messages/s": messages / writing.seconds / 1000, COST: cpu * 1e6 / messages}

    def _bodies(self, messages: int, body_bytes: int) -> Any:
        """A list in Java: some different ones, again and again."""
        util = self._java.jvm.java.util
        some, every = util.ArrayList(), util.ArrayList(messages)
        for number in range(min(messages, DIFFERENT_BODIES)):
            some.add(b"%0*d" % (body_bytes, number))
        for _ in range(messages // DIFFERENT_BODIES):
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
        return make.function("Function", make.chain(new, make.both(named, make.identity(_MESSAGE))))

    def _sender(self) -> Any:
        """A permit, then a send whose callback keeps the result and releases the permit."""
        make = self._make
        acquire = make.method(_SEMAPHORE, "acquireUninterruptibly", "void").bindTo(self._permits)
        release = make.method(_SEMAPHORE, "release", "void").bindTo(self._permits)
        keep = make.method("java.util.Collection", "add", "boolean", _OBJECT).bindTo(self._answers)
        listener = make.as_type(keep, "void", _OBJECT)
        callback = make.listener(_CALLBACK, make.both(listener, make.ignoring(release, 0, _OBJECT)))
        send = make.method(_PRODUCER, "sendMessage", "void", _MESSAGE, _CALLBACK)
        sent = make.with_arguments(send.bindTo(self._producer.of_java), 1, callback)
        return make.function("Consumer", make.both(make.ignoring(acquire, 0, _MESSAGE), sent))


class _Handles:
    """Method handles of the JVM whose py4j view is `jvm`, put together as java.lang.invoke.MethodHandles does."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._invoke = jvm.java.lang.invoke
        # A lookup with the rights of py4j's own code: public methods of the class path.
        self._lookup = self._invoke.MethodHandles.lookup()

    def class_of(self, name: str) -> Any:
        """The class of that full name, or Java's primitive type."""
        lang = self._jvm.java.lang
        primitives = {"int": lang.Integer, "boolean": lang.Boolean, "void": lang.Void}
        return primitives[name].TYPE if name in primitives else lang.Class.forName(name)

    def method(self, owner: str, name: str, result: str, *arguments: str) -> Any:
        """An object's public method: the first argument is the object."""
        return self._lookup.findVirtual(self.class_of(owner), name, self._type(result, *arguments))

    def constructor(self, owner: str, *arguments: str) -> Any:
        return self._lookup.findConstructor(self.class_of(owner), self._type("void", *arguments))

    def function(self, interface: str, handle: Any) -> Any:
        """The handle as an object of an interface of java.util.function."""
        return self._instance(f"java.util.function.{interface}", handle)

    def listener(self, interface: str, handle: Any) -> Any:
        """An object of any interface whose methods all give their first argument to `handle`, and return nothing."""
        element = self._invoke.MethodHandles.arrayElementGetter(self.class_of(f"[L{_OBJECT};"))
        # Its own arguments are the object, the method and the method's arguments.
        called = self.ignoring(
            self.chain(self.with_arguments(element, 1, 0), handle), 0, _OBJECT, "java.lang.reflect.Method"
        )
        listener = self.class_of(interface)
        classes = self._array("java.lang.Class", listener)
        return self._jvm.java.lang.reflect.Proxy.newProxyInstance(
            listener.getClassLoader(), classes, self._instance("java.lang.reflect.InvocationHandler", called)
        )

    def ignoring(self, handle: Any, position: int, *arguments: str) -> Any:
        """With further arguments at `position` that it does not use."""
        classes = self._array("java.lang.Class", *map(self.class_of, arguments))
        return self._invoke.MethodHandles.dropArguments(handle, position, classes)

    def both(self, first: Any, second: Any) -> Any:
        """Gives its argument to `first`, which returns nothing, and then to `second`."""
        return self._invoke.MethodHandles.foldArguments(second, first)

    def chain(self, *handles: Any) -> Any:
        """Gives the result of each to the next."""
        return reduce(self._invoke.MethodHandles.filterReturnValue, handles)

    def as_type(self, handle: Any, result: str, *arguments: str) -> Any:
        """With casts to other types."""
        return handle.asType(self._type(result, *arguments))

    def identity(self, owner: str) -> Any:
        return self._invoke.MethodHandles.identity(self.class_of(owner))

    def with_arguments(self, handle: Any, position: int, *values: Any) -> Any:
        """With the arguments from `position` on filled in."""
        return self._invoke.MethodHandles.insertArguments(handle, position, self._array(_OBJECT, *values))

    def _instance(self, interface: str, handle: Any) -> Any:
        return self._invoke.MethodHandleProxies.asInterfaceInstance(self.class_of(interface), handle)

    def _type(self, result: str, *arguments: str) -> Any:
        classes = self._array("java.lang.Class", *map(self.class_of, arguments))
        return self._invoke.MethodType.methodType(self.class_of(result), classes)

    def _array(self, kind: str, *items: Any) -> Any:
        array = self._jvm.java.lang.reflect.Array.newInstance(self.class_of(kind), len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array


def _cpu(java: JavaVM) -> float:
    if java.pid is None:
        raise RuntimeError("Java's client has ended")
    return cpu_seconds(java.pid)
