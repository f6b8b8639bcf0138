"""The cluster as this machine reaches it: masters, brokers, their web ports, and what the group may read."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tubeclient.conditions import said
from tubeclient.errors import StatusError, TubeError
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.terminal import ExitCode, exit_code
from tubeclient_cli.doctor.finding import Finding, good, note, problem

if TYPE_CHECKING:
    from tubeclient.keys import BrokerInfo
    from tubeclient.settings import ClientSettings

__all__ = ["CONNECT_SECONDS", "Addresses", "check_cluster", "judge_reach", "reach"]

CONNECT_SECONDS: Final = 3.0
_THREADS: Final = 16
_WEB: Final = "without it, offsets are looked up by the protocol, which is slower, and subscribePattern does not work"


@dataclass(frozen=True, slots=True)
class Addresses:
    """What executors try to reach, each as "host:port"."""

    masters: list[str] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        return [*self.masters, *self.brokers]


def check_cluster(settings: ClientSettings, options: Mapping[str, str], found: Addresses) -> Iterator[Finding]:
    """The findings. Appends all addresses to `found`, for the executors.

    `options` are the source's; without consumerGroup and subscribe the layout is not checked.
    """
    from tubeclient.admin import Admin
    from tubeclient.web_port import web_port_fault

    found.masters.extend(settings.master_servers)
    yield from _check_masters(settings)
    try:
        states = Admin(settings).brokers()
        brokers = [broker for broker in states if broker.is_in_service]
        yield good(
            "master's web port", f"{settings.master_web_port} lists {counted(len(brokers), 'broker')} in service"
        )
    except TubeError as error:
        states = brokers = []
        yield problem("master's web port", said(error), f"check --option masterWebPort=PORT; {_WEB}")
    if "consumerGroup" in options:
        yield from _check_layout(options, found.brokers)
    known = {*found.brokers}
    if (fault := web_port_fault(settings.master_web_port, states, _named(settings))) is not None:
        yield problem("master's web port", fault, "give that of this cluster's master: --option masterWebPort=PORT")
    found.brokers.extend(one.info.address for one in brokers if one.info.address not in known and not settings.tls)
    yield from judge_reach("broker", reach(found.brokers), "")
    webs = judge_reach("broker's web port", reach(one.web_address for one in brokers), "")
    yield from (one if one.is_ok else problem(one.check, one.text, _WEB) for one in webs)


def _check_masters(settings: ClientSettings) -> Iterator[Finding]:
    from tubeclient.web_port import knock_at_masters

    errors = knock_at_masters(settings)
    refusals = {address: error for address, error in errors.items() if isinstance(error, StatusError)}
    for address, refusal in refusals.items():
        yield problem("master", f"{address} refuses: {said(refusal)}", "", exit_code(refusal))
    faults = {
        address: None if error is None else said(error) for address, error in errors.items() if address not in refusals
    }
    yield from judge_reach("master", faults, "", needs_all=False)


def _named(settings: ClientSettings) -> list[BrokerInfo]:
    """The brokers by the masters; none if they do not say, which other checks tell."""
    from tubeclient.web_port import named_brokers

    try:
        return named_brokers(settings)
    except TubeError:
        return []


def _check_layout(options: Mapping[str, str], addresses: list[str]) -> Iterator[Finding]:
    from spark_source.cluster.cluster import TubeCluster, check_scope
    from spark_source.options.access import client_settings
    from spark_source.options.given import parse_options

    parsed = parse_options(options)
    check = f"topics of group {parsed.consumer_group}"
    try:
        view = TubeCluster(client_settings(parsed), parsed).fetch_view()
        check_scope(parsed, view)
    except TubeError as error:
        yield problem(check, said(error), "", exit_code(error))
        return
    partitions = view.partitions()
    addresses += sorted({view.broker_of(key).address for key in partitions} - set(addresses))
    topics = ", ".join(sorted({key.topic for key in partitions}))
    yield good(check, f"its reader groups may read {topics or 'nothing'}: {counted(len(partitions), 'partition')}")


def reach(addresses: Iterable[str]) -> dict[str, str | None]:
    """Why a connection to each "host:port" failed; None if it did not. At most 3 s each, 16 at a time."""
    wanted = list(addresses)
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(wanted, pool.map(_fault, wanted), strict=True))


def judge_reach(
    check: str, faults: Mapping[str, str | None], where: str, *, needs_all: bool = True
) -> Iterator[Finding]:
    """`where` says from where the connections were tried, "" for this machine."""
    bad = {address: fault for address, fault in faults.items() if fault is not None}
    reached = [address for address in faults if address not in bad]
    if reached:
        yield good(check, f"{', '.join(reached)} reached{where}")
    for address, fault in bad.items():
        if reached and not needs_all:
            yield note(check, f"{address} not reached{where}: {fault}", "the others serve meanwhile")
        else:
            action = f"start the {check.partition(' ')[0]}, correct the address, or open the network to it"
            yield problem(check, f"{address} not reached{where}: {fault}", action, ExitCode.UNREACHABLE)


def _fault(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None
