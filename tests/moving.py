"""Brokers that come back at other addresses."""

from __future__ import annotations

from embedded_tubemq.cluster import EmbeddedTubeMQ

__all__ = ["move_broker", "swap_brokers"]


def move_broker(tube: EmbeddedTubeMQ, broker_id: int) -> None:
    """Stop a broker and start it on other ports; it keeps its messages and the groups' positions."""
    node = tube._node(broker_id).ports
    tube.stop_broker(broker_id)
    before = node.port, node.web_port
    node.port = node.web_port = 0
    tube.start_broker(broker_id)
    assert before[0] != node.port
    assert before[1] != node.web_port


def swap_brokers(tube: EmbeddedTubeMQ) -> None:
    """Stop brokers 1 and 2 and start each at the other's former address."""
    one, two = tube._node(1).ports, tube._node(2).ports
    for broker_id in (1, 2):
        tube.stop_broker(broker_id)
    one.port, two.port, one.web_port, two.web_port = two.port, one.port, two.web_port, one.web_port
    for broker_id in (1, 2):
        tube.start_broker(broker_id)
