"""Apache's InLongMsg in a JVM: it parses packs, and copies each record out, as InLong's sort SDK does.

All packs are parsed by one call of py4j. In Java source it would be

    packs.forEach(pack -> InLongMsg.parseFrom(pack).getIterator(attributes).forEachRemaining(records::add))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.java_lambdas import JavaLambdas
from tests.apache.java_gateway import JavaVM

__all__ = ["JavaPacks"]

_INLONG_MSG: Final = "org.apache.inlong.common.msg.InLongMsg"
_HEAP_MB: Final = 1_024
_NANOSECONDS: Final = 1e9


class JavaPacks:
    """Packs in a JVM of their own, all of one group of attributes. A context manager."""

    def __init__(self, workdir: Path, packs: Sequence[bytes]) -> None:
        self._java = JavaVM(workdir, _HEAP_MB)
        jvm = self._java.jvm
        self._jvm = jvm
        self._packs = jvm.java.util.ArrayList(len(packs))
        for pack in packs:
            self._packs.add(pack)
        [self._attributes] = list(jvm.org.apache.inlong.common.msg.InLongMsg.parseFrom(packs[0]).getAttrs())
        self._threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()

    def decode_seconds(self, records: int) -> float:
        """CPU seconds of the thread that parses all packs. RuntimeError: it found another number of records."""
        found = self._jvm.java.util.ArrayList(records)
        parse = self._parsing(found)
        # All calls of one Python thread run in one thread of Java.
        before = self._threads.getCurrentThreadCpuTime()
        self._packs.forEach(parse)
        seconds = (self._threads.getCurrentThreadCpuTime() - before) / _NANOSECONDS
        if found.size() != records:
            raise RuntimeError(f"Java found {found.size()} of {records} records")
        return float(seconds)

    def _parsing(self, found: Any) -> Any:
        """A consumer of packs that adds their records to `found`."""
        make = JavaLambdas(self._jvm)
        parse = make.static(_INLONG_MSG, "parseFrom", _INLONG_MSG, "[B")
        records = make.method(_INLONG_MSG, "getIterator", "java.util.Iterator", "java.lang.String")
        [add] = make.bound_references(
            "Consumer", make.method("java.util.ArrayList", "add", "boolean", "java.lang.Object"), found
        )
        each = make.method("java.util.Iterator", "forEachRemaining", "void", "java.util.function.Consumer")
        return make.proxy(
            "Consumer",
            make.chain(parse, make.with_arguments(records, 1, self._attributes), make.with_arguments(each, 1, add)),
        )

    def __enter__(self) -> JavaPacks:
        return self

    def __exit__(self, *_: object) -> None:
        self._java.close()
