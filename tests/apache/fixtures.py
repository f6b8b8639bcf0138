"""pytest fixtures: Apache TubeMQ for a whole test run, and its Java producer and consumer.

A conftest imports them with `from tests.apache.fixtures import *`. Servers and client JVM start once, at the first use,
however many conftests do that. They fail, never skip, if the servers cannot run: a run without Apache's broker would
prove nothing about it. The Java clients use the cluster of the conftest's fixture `master_address`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.apache.jars import JarsError, class_path
from tests.apache.java_client import JavaBalanceConsumer, JavaProducer, JavaVM
from tests.apache.jvm import ServerError
from tests.apache.masters import AdminError
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.conformance.topics import TOPICS as CONFORMANCE_TOPICS

__all__ = ["apache", "java_consumer", "java_producer", "java_vm", "options"]

# All made before the brokers start: topics that come later cost a test about 3 s.
TOPICS: Final = (
    TopicSpec("apache_stream", num_partitions=2, num_stores=2),
    # One partition per index: the case in which every offset is a message's own.
    TopicSpec("apache_single", num_partitions=1, num_stores=4),
    TopicSpec("apache_times", num_partitions=3, num_stores=1),
    TopicSpec("apache_position", num_partitions=2, num_stores=1),
    TopicSpec("apache_members", num_partitions=2, num_stores=1),
    TopicSpec("apache_ui", num_partitions=2, num_stores=2),
    TopicSpec("apache_untouched", num_partitions=1, num_stores=1, brokers=(0,)),
    TopicSpec("py_to_java", num_partitions=2, num_stores=2),
    *CONFORMANCE_TOPICS,
)


# Kept with the run's config, not with a fixture: every conftest that imports the fixtures has its own copies of these.
_CLUSTER: Final = pytest.StashKey[ApacheTubeMQ]()
_JAVA: Final = pytest.StashKey[JavaVM]()


@pytest.fixture(scope="session")
def apache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> ApacheTubeMQ:
    """A master and two brokers with TOPICS, ready for clients; 5 to 7 s once, 16 s more where jars must be fetched."""
    if _CLUSTER not in pytestconfig.stash:
        try:
            class_path()
            pytestconfig.stash[_CLUSTER] = cluster = ApacheTubeMQ(tmp_path_factory.mktemp("apache-tubemq"))
            cluster.start(TOPICS)
        except (JarsError, ServerError, AdminError, OSError) as error:
            pytest.fail(f"Apache TubeMQ could not be started: {error}", pytrace=False)
        # Its data goes with the run: no need to let it write everything down for 5 s.
        pytestconfig.add_cleanup(lambda: cluster.stop(clean=False))
    return pytestconfig.stash[_CLUSTER]


@pytest.fixture(scope="session")
def java_vm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> JavaVM:
    """One JVM for all Java clients of the run; starts with the first of them."""
    if _JAVA not in pytestconfig.stash:
        pytestconfig.stash[_JAVA] = java = JavaVM(tmp_path_factory.mktemp("java-client"))
        pytestconfig.add_cleanup(java.close)
    return pytestconfig.stash[_JAVA]


@pytest.fixture
def java_producer(master_address: str, java_vm: JavaVM) -> Iterator[Callable[..., JavaProducer]]:
    """`java_producer("topic", ...)`: a producer that has published these topics; closed after the test."""
    with contextlib.ExitStack() as closing:

        def make(*topics: str) -> JavaProducer:
            producer = JavaProducer(java_vm, master_address)
            closing.callback(producer.close)
            return producer.publish(topics)

        yield make


@pytest.fixture
def java_consumer(master_address: str, java_vm: JavaVM) -> Iterator[Callable[..., JavaBalanceConsumer]]:
    """`java_consumer(group, ...)`: a consumer yet to be started; closed after the test."""
    with contextlib.ExitStack() as closing:

        def make(group: str, **options: Any) -> JavaBalanceConsumer:
            consumer = JavaBalanceConsumer(java_vm, master_address, group, **options)
            closing.callback(consumer.close)
            return consumer

        yield make


def options(apache: ApacheTubeMQ, topic: str, group: str, **more: object) -> dict[str, str]:
    """The source's options for a query of two nodes of `group` on `topic`."""
    given = {
        "masterServers": apache.master_address,
        "masterWebPort": apache.master_web_port,
        "subscribe": topic,
        "consumerGroup": group,
        "sourceCount": 2,
        **more,
    }
    return {name: str(value) for name, value in given.items()}
