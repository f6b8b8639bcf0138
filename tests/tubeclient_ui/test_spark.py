"""Spark for the views: lazy, in the background, with deadlines."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from tests.waiting import wait_for
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common import session
from tubeclient_ui import spark as spark_module
from tubeclient_ui.spark import Spark, SparkBusy, SparkFailed

T = TypeVar("T")


class FakeSession:
    """Takes tags, and says which were interrupted."""

    def __init__(self) -> None:
        self.interrupted: list[str] = []

    def addTag(self, tag: str) -> None: ...

    def interruptTag(self, tag: str) -> None:
        self.interrupted.append(tag)


class Starts:
    """`on_spark` of a machine where Spark starts when it is let."""

    def __init__(self) -> None:
        self.session, self.let, self.count, self.ended = FakeSession(), threading.Event(), 0, False
        self.error: Exception | None = None

    @contextlib.contextmanager
    def on_spark(self, *_: Any, **__: Any) -> Iterator[FakeSession]:
        self.count += 1
        self.let.wait(30)
        if self.error is not None:
            raise self.error
        yield self.session
        self.ended = True


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(session, "on_spark", made.on_spark)
    monkeypatch.setattr(session, "has_ended", lambda *_: False)
    monkeypatch.setattr(spark_module, "_WAIT_SECONDS", 0.05)
    return made


def asked(ask: Callable[[], T]) -> T:
    """As a page that asks again."""
    found: list[T] = []

    def answers() -> bool:
        with contextlib.suppress(SparkBusy):
            found.append(ask())
        return bool(found)

    wait_for(answers, "an answer of Spark")
    return found[0]


def test_spark_starts_when_it_is_needed(starts: Starts) -> None:
    """Once, and nobody waits for it; it ends with the page."""
    spark = Spark()
    assert starts.count == 0
    for _ in range(3):
        with pytest.raises(SparkBusy) as busy:
            spark.session()
        assert busy.value.starts
    starts.let.set()
    assert id(asked(spark.session)) == id(starts.session)
    assert starts.count == 1
    spark.close()
    assert starts.ended


def test_a_start_that_fails_says_why(starts: Starts) -> None:
    """Each time that a view asks."""
    starts.error = ConfigurationError("no Java")
    starts.let.set()
    spark = Spark()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="no Java"):
            asked(spark.session)
    spark.close()


def test_a_result_is_had_until_it_is_old(starts: Starts) -> None:
    """Then the former one is shown while the next is made; what failed is not shown as if it were well."""
    starts.let.set()
    spark, made, go = Spark(), itertools.count(1), threading.Event()
    go.set()

    def work(_: Any) -> int:
        go.wait(30)
        if (number := next(made)) > 2:
            raise ConfigurationError("not the third")
        return number

    assert asked(lambda: spark.result("key", work)) == 1
    assert asked(lambda: spark.result("key", work)) == 1
    go.clear()
    assert spark.result("key", work, fresh_seconds=0, with_former=True) == 1
    with pytest.raises(SparkBusy):
        spark.result("key", work)
    go.set()
    wait_for(lambda: asked(lambda: spark.result("key", work)) == 2, "the second")
    with pytest.raises(ConfigurationError, match="not the third"):
        wait_for(lambda: asked(lambda: spark.result("key", work, fresh_seconds=0)) is None, "the third")
    spark.close()


def test_work_that_hangs_has_an_end(starts: Starts) -> None:
    """Spark is asked to stop it, the page says so, and other work goes on; too much of it is an error at once."""
    starts.let.set()
    spark, never = Spark(), threading.Event()
    asked(spark.session)
    for number in range(4):
        with pytest.raises(SparkFailed, match="no answer from Spark within 0 s"):
            asked(lambda number=number: spark.result(number, lambda _: never.wait(60), seconds=0.2))  # type: ignore[misc]
        if number < 3:
            assert asked(lambda: spark.result("other", lambda _: "well", fresh_seconds=0)) == "well"
    wait_for(lambda: len(starts.session.interrupted) == 4, "the interruptions")
    with pytest.raises(SparkFailed, match="answers nothing"):
        spark.result("one more", lambda _: None)
    never.set()
    began = time.monotonic()
    spark.close()
    assert time.monotonic() - began < 5
