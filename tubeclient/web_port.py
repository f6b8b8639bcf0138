"""Whether the masters' web port is their own, and which of its topics are spelled like one that the cluster lacks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress

from tubeclient.access import masters_of
from tubeclient.admin import Admin
from tubeclient.admin.answers.model import BrokerState
from tubeclient.errors import ConfigurationError, TopicNotDeployed, TubeError
from tubeclient.flows.produce import ProducerSession
from tubeclient.identity import host_name, new_client_id
from tubeclient.keys import BrokerInfo
from tubeclient.names import near_names
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings

__all__ = ["add_near", "check_web_port", "named_brokers", "near_topics", "web_port_fault"]


def named_brokers(settings: ClientSettings) -> list[BrokerInfo]:
    """The brokers that the masters name by TubeMQ's protocol, without any topic or group. TubeError if none answers, or
    if they refuse the user. Registers a producer for a moment."""
    session = ProducerSession(masters_of(settings), new_client_id("producer", "look"), host_name())
    with closing(ConnectionPool(settings)) as pool:
        runner = FlowRunner(pool)
        runner.run(session.register())
        with suppress(TubeError):  # the master's lease ends
            runner.run(session.close())
    return list(session.brokers.values())


def web_port_fault(web_port: int, states: Iterable[BrokerState], brokers: Iterable[BrokerInfo]) -> str | None:
    """Why the web port that lists `states` is not that of the masters that name `brokers`: they share no broker. None
    if they share one, or if one of them has none."""
    listed, named = list(states), list(brokers)
    if not listed or not named or any(_is_same(state, broker) for state in listed for broker in named):
        return None
    theirs, ours = min(state.info.address for state in listed), min(broker.address for broker in named)
    return f"{web_port} lists {theirs}, and the masters name {ours}: it is another cluster's"


def check_web_port(settings: ClientSettings, states: Iterable[BrokerState]) -> None:
    """ConfigurationError if the web port that lists `states` is another cluster's. TubeError if no master answers."""
    fault = web_port_fault(settings.master_web_port, states, named_brokers(settings))
    if fault is not None:
        raise ConfigurationError(
            f"web port {fault}. Set master_web_port, in Spark masterWebPort, to that of this cluster's masters",
            condition="OTHER_WEB_PORT",
        )


def near_topics(settings: ClientSettings, topics: Iterable[str]) -> str:
    """ "did you mean clicks?" for those of `topics` that the cluster does not have; "" if no name is like theirs.

    Asks the masters' web port, for `http_timeout_ms` each. "" also if it does not answer, or is another cluster's.
    """
    with suppress(TubeError):
        admin = Admin(settings)
        there = admin.topic_names()
        near = near_names(sorted(set(topics).difference(there)), there)
        if near and web_port_fault(settings.master_web_port, admin.brokers(), named_brokers(settings)) is None:
            return near
    return ""


def add_near(error: TopicNotDeployed, near: str) -> None:
    """Add what `near_names` or `near_topics` gave to `error` and its text."""
    error.near = near
    if near:
        error.args = (f"{error}. {near[0].upper()}{near[1:]}",)


def _is_same(state: BrokerState, broker: BrokerInfo) -> bool:
    # Over TLS, masters name the TLS port.
    where = state.info
    return (broker.broker_id, broker.host) == (where.broker_id, where.host) and broker.port in (
        where.port,
        state.tls_port,
    )
