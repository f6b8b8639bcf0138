"""Whether the masters answer, and whether their web port is their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing, suppress

from tubeclient.access import masters_of
from tubeclient.admin.model import BrokerState
from tubeclient.admin.web import MasterWeb
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.flows.produce import ProducerSession
from tubeclient.identity import host_name, new_client_id
from tubeclient.keys import BrokerInfo
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

_own: set[ClientSettings] = set()
"""Whose web port is known to be the masters' own."""


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
    if not listed or not named or any(state.is_at(broker) for state in listed for broker in named):
        return None
    theirs, ours = min(state.info.address for state in listed), min(broker.address for broker in named)
    return f"{web_port} lists {theirs}, and the masters name {ours}: it is another cluster's"


def own_web(settings: ClientSettings) -> ClientSettings:
    """Return the settings, if their web port lists a broker that the masters name too. Whoever believes what a web port
    says asks this before; an answer holds for the process.

    ConfigurationError if it is another cluster's, TubeError if it does not answer. If no master answers, it is believed
    for now.
    """
    if settings not in _own:
        states = MasterWeb(settings).brokers()
        try:
            named = named_brokers(settings)
        except TubeError as error:
            _log.info("no master says whether the web port is its own: %s", error)
            return settings
        fault = web_port_fault(settings.master_web_port, states, named)
        if fault is not None:
            raise ConfigurationError(
                f"web port {fault}. Set master_web_port to that of this cluster's masters",
                condition="OTHER_WEB_PORT",
            )
        if states and named:
            _own.add(settings)
    return settings
