"""Topics of a pattern: when they are looked up, when they come and go, and what cannot be a pattern."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.spark_source.fakes import FakeClock
from tubeclient import ClientBalanceConsumer, ClientSettings, ConfigurationError, ConnectError, PullConsumer
from tubeclient.consumers.topic_watch import TopicWatch, matching_topics

NOWHERE = ClientSettings("127.0.0.1:1", master_web_port=1, connect_timeout_ms=100, http_timeout_ms=100)


class Watched:
    """A watch whose topics a test sets; each `later` is past the interval."""

    def __init__(self, *topics: str) -> None:
        self.topics: list[str] = list(topics)
        self.fault: ConnectError | None = None
        self.looks = 0
        self.clock = FakeClock()
        self.watch = TopicWatch(self._look, 30_000, clock=self.clock)

    def _look(self) -> list[str]:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        return self.topics

    def later(self, *topics: str) -> tuple[str, ...]:
        self.topics = list(topics)
        self.clock.now += 30
        return self.watch.due()


def test_new_topics() -> None:
    """The next refresh finds new topics, and nothing asks for them before it is due."""
    watched = Watched("a")
    assert watched.watch.refresh() == ("a",)
    watched.topics = ["b", "a"]
    for _ in range(100):
        assert watched.watch.due() == ("a",)
    assert watched.looks == 1
    assert watched.later("b", "a") == ("a", "b")
    assert watched.looks == 2
    assert watched.watch.later == {"b"}


def test_a_topic_is_given_up_when_two_looks_missed_it(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("a", "b")
    watched.watch.refresh()
    assert watched.later("a") == ("a", "b")
    assert watched.later("a", "b") == ("a", "b")
    assert watched.later("a") == ("a", "b")
    assert watched.later("a") == ("a",)
    assert watched.later() == ("a",)
    assert watched.later() == ()
    assert watched.later() == ()
    assert caplog.text.count("no topic matches subscribe_pattern; waiting for one") == 1
    assert watched.watch.later == set()


def test_a_pattern_that_matches_nothing_waits(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    assert watched.watch.refresh() == ()
    assert watched.later() == ()
    assert watched.later("a") == ("a",)
    assert caplog.text.count("no topic matches subscribe_pattern; waiting for one") == 1
    assert watched.watch.later == {"a"}


def test_failed_refresh(caplog: pytest.LogCaptureFixture) -> None:
    """A failed refresh changes nothing and is logged once."""
    watched = Watched("a")
    watched.watch.refresh()
    watched.fault = ConnectError("no web port")
    assert [watched.later("b") for _ in range(3)] == [("a",)] * 3
    assert caplog.text.count("reading the known ones: no web port") == 1
    with pytest.raises(ConnectError):
        watched.watch.refresh()
    watched.fault = None
    assert watched.later("a", "b") == ("a", "b")


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("clicks_(", "subscribe_pattern is 'clicks_(', which is not a Python regular expression: missing )"),
        ("", "subscribe_pattern is ''; use a regular expression that matches whole topic names, such"),
        (re.compile(b"clicks"), "subscribe_pattern is re.compile(b'clicks'); use"),
        (["clicks"], "subscribe_pattern is ['clicks']; use"),
    ],
)
@pytest.mark.parametrize("make", [ClientBalanceConsumer, PullConsumer])
def test_invalid_pattern(make: Any, pattern: Any, what: str) -> None:
    """An invalid pattern raises an error that names it before any request."""
    with pytest.raises(ConfigurationError, match=re.escape(what)):
        make(NOWHERE, "etl", subscribe_pattern=pattern)


@pytest.mark.parametrize("make", [ClientBalanceConsumer, PullConsumer])
def test_topics_and_a_pattern_exclude_each_other(make: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"give topics .* or subscribe_pattern .*, not both"):
        make(NOWHERE, "etl", ["clicks"], subscribe_pattern="clicks")


def test_missing_web_port() -> None:
    """The error without a web port names master_web_port and topics as the other way."""
    with pytest.raises(ConnectError, match=r"subscribe_pattern needs .* Check master_web_port, or .* with topics"):
        matching_topics(NOWHERE, re.compile("clicks"))
    with pytest.raises(ConnectError, match=r"subscribe_pattern needs "):
        PullConsumer(NOWHERE, "etl", subscribe_pattern="clicks").start()
