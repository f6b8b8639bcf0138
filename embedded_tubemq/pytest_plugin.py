"""Fixtures for pytest: an embedded TubeMQ for the session, and a new topic for each test. docs/testing.md shows them.

pytest loads this module in every project of an environment that has the package, also in those without the extra
`embedded`. So it imports nothing but pytest until a fixture is used.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from embedded_tubemq.cluster import EmbeddedTubeMQ
    from tubeclient import ClientSettings, Message, Producer, SendResult

__all__ = ["TubeTopic"]

_POLL_SECONDS: Final = 0.05
_NAME_CHARACTERS: Final = 48
"""Of a topic's name that come from the test's; 64 are allowed, and a number follows."""

_numbers = itertools.count(1)


class TubeTopic:
    """A topic of the embedded cluster, with a client to send to it and to read it. The fixture `tubemq_topic` makes and
    closes it.

    Errors are those of `tubeclient`. It is used by one thread.
    """

    def __init__(self, name: str, tube: EmbeddedTubeMQ, settings: ClientSettings) -> None:
        self.name = name
        self.tube = tube
        self.settings = settings
        self._producer: Producer | None = None

    def send(
        self, *bodies: bytes, tag: str = "", time: str = "", attributes: Mapping[str, str] | None = None
    ) -> list[SendResult]:
        """Send one message for each body, and wait until the brokers have them all. `time` is yyyyMMddHHmm."""
        from tubeclient import Producer

        if self._producer is None:
            self._producer = Producer(self.settings)
            self._producer.publish([self.name])
        futures = self._producer.submit_many(self.name, bodies, tag=tag, time=time, attributes=attributes)
        self._producer.flush()
        return [future.result() for future in futures]

    def read(self, count: int = 0, *, timeout_seconds: float = 10.0) -> list[Message]:
        """All messages that the topic has now, whoever sent them: by broker and partition, each in its order.

        With `count`, first wait until it has that many; the test fails if it has fewer after `timeout_seconds`. Reading
        is as the groups `NAME_check-r0` to `-r7`, and moves no group's position.
        """
        __tracebackhide__ = True  # pytest then shows the line of the test
        deadline = time.monotonic() + timeout_seconds
        while len(found := self._read_once()) < count:
            if time.monotonic() >= deadline:
                pytest.fail(
                    f"topic {self.name} has {len(found)} messages after {timeout_seconds:g} s, and {count} are wanted"
                )
            time.sleep(_POLL_SECONDS)
        return found

    def close(self) -> None:
        """End the client."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def __repr__(self) -> str:
        return f"<TubeTopic {self.name} at {self.tube.master_address}>"

    def _read_once(self) -> list[Message]:
        from tubeclient import OffsetRange, RangeReader, WantedRange, fetch_view, reader_groups_of

        groups = reader_groups_of(f"{self.name}_check")
        view = fetch_view(self.settings, [self.name], groups)
        wanted = []
        for key in view.partitions():
            held = self.tube.bounds(self.name, store_id=key.store.store_id, broker_id=key.broker_id)
            wanted.append(WantedRange(view.broker_of(key), OffsetRange(key, held.min_offset, held.max_offset)))
        found: list[list[Message]] = [[] for _ in wanted]
        with RangeReader(self.settings, groups, visit_token=view.visit_token) as reader:
            for number, pack in reader.read_all(wanted):
                if pack is not None:
                    found[number] += pack.messages
        return list(itertools.chain.from_iterable(found))


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the cluster is like, where the fixture `tubemq_config` is not overridden."""
    group = parser.getgroup("tubemq", "embedded TubeMQ, of pyspark-tubeclient")
    group.addoption("--tubemq-brokers", metavar="N", help="brokers of the fixture tubemq, instead of tubemq_brokers")
    parser.addini("tubemq_brokers", "brokers of the fixture tubemq", default="1")
    parser.addini("tubemq_topics", "topics of the fixture tubemq, each NAME:STORES:PARTITIONS", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and check the number of brokers."""
    config.addinivalue_line(
        "markers", "tubemq_topic(stores=1, partitions=1, ...): the fields of TopicConfig for the fixture tubemq_topic"
    )
    _brokers(config)


def _brokers(config: pytest.Config) -> int:
    text = str(config.getoption("--tubemq-brokers") or config.getini("tubemq_brokers"))
    if not re.fullmatch(r"[1-9]\d{0,2}", text):
        raise pytest.UsageError(f"tubemq_brokers, or --tubemq-brokers, is {text!r}; write a number from 1 to 999")
    return int(text)


@pytest.fixture(scope="session")
def tubemq_config(pytestconfig: pytest.Config) -> dict[str, Any]:
    """Arguments of EmbeddedTubeMQ, by name. Override it in conftest.py for users, TLS or anything else.

    As it is: `brokers` and `topics` from pytest's options.
    """
    with _as_failure():
        from embedded_tubemq import TopicConfig

        topics = [TopicConfig.parse(text) for text in pytestconfig.getini("tubemq_topics")]
    return {"brokers": _brokers(pytestconfig), "topics": topics}


@pytest.fixture(scope="session")
def tubemq(tubemq_config: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """A running EmbeddedTubeMQ for the whole session, in a temporary folder. With pytest-xdist, one for each worker."""
    with _as_failure():
        from embedded_tubemq import EmbeddedTubeMQ

        cluster = EmbeddedTubeMQ(**{"data_dir": tmp_path_factory.mktemp("tubemq"), **tubemq_config})
    with cluster as running:
        yield running


@pytest.fixture(scope="session")
def tubemq_settings(tubemq: EmbeddedTubeMQ, tubemq_config: Mapping[str, Any]) -> ClientSettings:
    """ClientSettings to reach the cluster, as the first of the `users` if it has any. Override it for TLS."""
    from tubeclient import ClientSettings, Credentials

    users = [Credentials(name, password=password) for name, password in (tubemq_config.get("users") or {}).items()]
    return ClientSettings(
        (tubemq.master_address,), master_web_port=tubemq.master_web_port, credentials=users[0] if users else None
    )


@pytest.fixture
def tubemq_topic(
    request: pytest.FixtureRequest, tubemq: EmbeddedTubeMQ, tubemq_settings: ClientSettings
) -> Iterator[TubeTopic]:
    """A new topic with the test's name and a number, deleted after the test.

    It has one store of one partition on each broker; `@pytest.mark.tubemq_topic(stores=2, partitions=4)` gives it more.
    """
    from embedded_tubemq import TopicConfig
    from tubeclient import ConfigurationError

    marker = request.node.get_closest_marker("tubemq_topic")
    name = _topic_name(request.node.name)
    with _as_failure("@pytest.mark.tubemq_topic: "):
        config = TopicConfig(name) if marker is None else TopicConfig(name, *marker.args, **marker.kwargs)
    tubemq.create_topic(config)
    topic = TubeTopic(name, tubemq, tubemq_settings)
    yield topic
    topic.close()
    with contextlib.suppress(ConfigurationError):  # the test has deleted it
        tubemq.delete_topic(name)


def _topic_name(test: str) -> str:
    """Of letters, digits and "_", and no other test's."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", test).strip("_")[:_NAME_CHARACTERS]
    return f"{stem if stem[:1].isalpha() else f'test_{stem}'}_{next(_numbers)}"


@contextlib.contextmanager
def _as_failure(where: str = "") -> Iterator[None]:
    """What a user can mend is one line: a package that is missing, an argument that is wrong."""
    from tubeclient.errors import ConfigurationError

    try:
        yield
    except (ModuleNotFoundError, ConfigurationError, TypeError) as error:
        raise pytest.fail.Exception(f"{where}{error}", pytrace=False) from None
