"""The present addresses of brokers that an older layout shows."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from tubeclient.errors import TubeError
from tubeclient.group import fetch_view
from tubeclient.keys import BrokerInfo
from tubeclient.net.pool import shared_pool
from tubeclient.settings import ClientSettings

__all__ = ["present_brokers"]

_log = logging.getLogger(__name__)


def present_brokers(
    settings: ClientSettings, reader_groups: Sequence[str], brokers: Collection[BrokerInfo], topics: Sequence[str]
) -> list[BrokerInfo]:
    """Return `brokers`, which have `topics`, at their present addresses. The masters are asked only if a broker takes
    no connection at its old address. Brokers that they do not list, or all if no master answers, keep the old one.
    """
    try:
        for broker in brokers:
            shared_pool(settings).get(broker.address)
        return list(brokers)
    except TubeError as error:
        _log.info("broker %s cannot be reached, asking the masters for its address: %s", broker, error)
    try:
        listed = fetch_view(_without_patience(settings), topics, reader_groups).brokers
    except TubeError as error:
        _log.info("the masters do not list the brokers: %s", error)
        return list(brokers)
    return [listed.get(broker.broker_id, broker) for broker in brokers]


def _without_patience(settings: ClientSettings) -> ClientSettings:
    """The caller waits for the broker itself afterwards."""
    return replace(settings, retry_limit_ms=min(settings.retry_limit_ms, settings.rpc_timeout_ms))
