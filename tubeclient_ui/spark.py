"""Spark for the views: one session, started when a view first needs it, and what it works at, on threads of its own. A
view that would wait raises `SparkBusy`; the page then says so, and asks again."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tubeclient.errors import TubeError
from tubeclient.extras import brought_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Spark", "SparkBusy", "SparkFailed"]

T = TypeVar("T")

_WAIT_SECONDS: Final = 1.0
"""How long a view waits itself, as most answers come soon."""
_START_SECONDS: Final = 300.0
"""The first start downloads Delta's jars."""
_STOP_SECONDS: Final = 10.0
_AT_ONCE: Final = 4
_MOST_RESULTS: Final = 32
_ENDED: Final = "Spark's process ended. Start tubeclient ui again"


class SparkBusy(Exception):
    """Not an error: Spark starts, or works at it. Ask again."""

    def __init__(self, seconds: float, *, starts: bool) -> None:
        super().__init__()
        self.seconds, self.starts = seconds, starts
        self.query: Mapping[str, str] = {}
        """What the next question has in its address besides."""


class SparkFailed(TubeError):
    """Spark does not answer."""


class _Work:
    def __init__(self, before: Future[Any] | None, seconds: float) -> None:
        self.future: Future[Any] = Future()
        self.before = before
        """What it brings anew; None if that failed."""
        self.began, self.ended = time.monotonic(), 0.0
        self.seconds = seconds

    @property
    def is_late(self) -> bool:
        return not self.future.done() and time.monotonic() - self.began > self.seconds

    def run(self, spark: SparkSession, work: Callable[[SparkSession], Any]) -> None:
        from tubeclient_cli.common.session import has_ended
        from tubeclient_ingest.tables.spark_errors import explained

        tag = f"tubeclient_ui_{secrets.token_hex(8)}"
        late = threading.Timer(self.seconds, _interrupt, (spark, tag))
        late.daemon = True
        late.start()
        try:
            with explained():
                spark.addTag(tag)  # of this thread
                found = work(spark)
            self.ended = time.monotonic()
            self.future.set_result(found)
        except BaseException as error:
            self.ended = time.monotonic()
            self.future.set_exception(SparkFailed(_ENDED) if has_ended(spark, 0) else error)
        finally:
            late.cancel()


class Spark:
    """One session for all views. Nothing here blocks for more than a second. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: Future[SparkSession] | None = None
        self._began = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tubeclient-ui-spark", daemon=True)
        self._works: OrderedDict[Hashable, _Work] = OrderedDict()

    def session(self) -> SparkSession:
        """The session. Starts it when it is first called; raises SparkBusy until it is there, and then, if Spark did
        not start, why."""
        with self._lock:
            if self._starts is None:
                self._starts, self._began = Future(), time.monotonic()
                self._thread.start()
        try:
            return self._starts.result(_WAIT_SECONDS)
        except TimeoutError:
            seconds = time.monotonic() - self._began
            if seconds > _START_SECONDS:
                raise SparkFailed(f"Spark did not start within {_START_SECONDS:.0f} s") from None
            raise SparkBusy(seconds, starts=True) from None

    def result(
        self,
        key: Hashable,
        work: Callable[[SparkSession], T],
        *,
        seconds: float = 60.0,
        fresh_seconds: float = 5.0,
        with_former: bool = False,
    ) -> T:
        """What `work` returns or raises, on a thread; SparkBusy until then. It ends after `seconds`. After
        `fresh_seconds` the next call brings it anew; `with_former`: meanwhile the former result is good enough."""
        spark = self.session()
        with self._lock:
            found = self._works.get(key)
            is_old = found is not None and found.future.done() and time.monotonic() - found.ended > fresh_seconds
            if found is None or is_old:
                self._check_room()
                is_good = found is not None and found.future.exception() is None
                found = self._works[key] = _Work(found.future if found is not None and is_good else None, seconds)
                self._works.move_to_end(key)
                name = f"tubeclient-ui-{found.began:.3f}"
                threading.Thread(target=found.run, args=(spark, work), name=name, daemon=True).start()
        if found.is_late:
            raise SparkFailed(f"no answer from Spark within {seconds:.0f} s")
        future: Future[T] = found.future
        try:
            return future.result(_WAIT_SECONDS)
        except TimeoutError:
            if with_former and found.before is not None:
                former: Future[T] = found.before
                return former.result()
            raise SparkBusy(time.monotonic() - found.began, starts=False) from None

    def _check_room(self) -> None:
        running = [each for each in self._works.values() if not each.future.done()]
        if len(running) >= _AT_ONCE:
            if all(each.is_late for each in running):
                raise SparkFailed("Spark answers nothing. Start tubeclient ui again")
            raise SparkBusy(0.0, starts=False)
        for old in [key for key, each in self._works.items() if each.future.done()][:-_MOST_RESULTS]:
            del self._works[old]

    def close(self) -> None:
        """Stop Spark."""
        self._stop.set()
        if self._starts is not None:
            self._thread.join(_STOP_SECONDS)  # else its JVM ends with this process

    def _run(self) -> None:
        starts = self._starts
        assert starts is not None
        try:
            with brought_by("spark"):
                import pyspark  # noqa: F401

                from tubeclient_cli.common.session import on_spark
            # Its end is told by those who ask for it; the other views go on.
            with on_spark("tubeclient ui", None, {}, say=lambda _: None, ends_with_spark=False) as spark:
                starts.set_result(spark)
                self._stop.wait()
        except BaseException as error:
            with suppress(Exception):
                starts.set_exception(error)


def _interrupt(spark: SparkSession, tag: str) -> None:
    with suppress(Exception):
        spark.interruptTag(tag)
