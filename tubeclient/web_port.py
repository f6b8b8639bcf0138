"""Whether the masters' web port is their own, and which of its topics are spelled like one that the cluster lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress

from tubeclient.access import masters_of
from tubeclient.admin import Admin
from tubeclient.admin.answers.model import BrokerState
from tubeclient.admin.master import MasterWeb
from tubeclient.errors import ConfigurationError, TopicNotDeployed, TubeError
from tubeclient.flows.produce import ProducerSession
from tubeclient.identity import host_name, new_client_id
from tubeclient.keys import BrokerInfo
from tubeclient.names import near_names
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

_own: set[ClientSettings] = set()
"""Whose web port is known to be the masters' own."""


def _note_unsure(error: TubeError) -> None:
    _log.info("no master says whether the web port is its own: %s", error)


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


def own_web(settings: ClientSettings, unsure: Callable[[TubeError], None] = _note_unsure) -> ClientSettings:
    """Return the settings, if their web port lists a broker that the masters name too. Whoever believes what a web port
    says asks this before; an answer holds for the process.

    ConfigurationError if it is another cluster's, TubeError if it does not answer. If no master answers, it is believed
    for now, and `unsure` gets that error.
    """
    if settings not in _own:
        states = MasterWeb(settings).brokers()
        try:
            named = named_brokers(settings)
        except TubeError as error:
            unsure(error)
            return settings
        fault = web_port_fault(settings.master_web_port, states, named)
        if fault is not None:
            raise ConfigurationError(
                f"web port {fault}. Set master_web_port, in Spark masterWebPort, to that of this cluster's masters",
                condition="OTHER_WEB_PORT",
            )
        if states and named:
            _own.add(settings)
    return settings


def near_topics(settings: ClientSettings, topics: Iterable[str]) -> str:
    """ "did you mean clicks?" for those of `topics` that the cluster does not have; "" if no name is like theirs.

    Asks the masters' web port, for `http_timeout_ms` each. "" also if it does not answer, or is another cluster's.
    """
    with suppress(TubeError):
        there = Admin(own_web(settings)).topic_names()
        return near_names(sorted(set(topics).difference(there)), there)
    return ""


@contextmanager
def naming_near(settings: ClientSettings, topics: Iterable[str]) -> Iterator[None]:
    """Add what `near_topics` finds to a TopicNotDeployed of the block."""
    try:
        yield
    except TopicNotDeployed as error:
        if near := near_topics(settings, topics):
            error.args = (f"{error}. {near[0].upper()}{near[1:]}",)
        raise


def _is_same(state: BrokerState, broker: BrokerInfo) -> bool:
    # Over TLS, masters name the TLS port.
    where = state.info
    return (broker.broker_id, broker.host) == (where.broker_id, where.host) and broker.port in (
        where.port,
        state.tls_port,
    )
