"""Records from Apache's servers."""

from __future__ import annotations

from typing import Final

from tests.apache.java_gateway import JavaVM
from tests.conformance.cluster import Cluster
from tests.recorder.exchanges import Recording
from tests.recorder.proxy import Recorder
from tests.recorder.scenario import perform, topics_of

__all__ = ["record"]

_ADDRESSES: Final = "org.apache.inlong.tubemq.corebase.utils.AddressUtils"


def record(tube: Cluster, java: JavaVM, topic: str) -> Recording:
    """What Java's clients and these servers say to each other. The topics of `topics_of(topic)` exist and are empty."""
    # Clients show their address in their ids; it says nothing here, and is another on each machine.
    address = java.jvm.java.lang.Class.forName(_ADDRESSES).getDeclaredField("localIPAddress")
    address.setAccessible(True)
    address.set(None, "127.0.0.1")
    with Recorder(tube.master_address, tube.brokers) as recorder:
        perform(recorder, java, topic)
    return Recording(recorder.started_ms, topics_of(topic), recorder.exchanges)
