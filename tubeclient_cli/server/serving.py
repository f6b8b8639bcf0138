"""Runs an embedded cluster until a signal stops it, and says where it listens."""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import signal
import threading
from collections.abc import Callable
from errno import EADDRINUSE
from pathlib import Path
from typing import Any, Final

import typer

from embedded_tubemq import EmbeddedTubeMQ, ServerTls
from tubeclient.errors import ConfigurationError

__all__ = ["check_host", "read_users", "serve", "tls_of"]

_LEVELS: Final = ("debug", "info", "warning", "error")


def check_host(host: str) -> None:
    """ConfigurationError if other machines can reach this address."""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        raise ConfigurationError(
            f"--host {host} can be reached from other machines, and by default this server does not authenticate "
            "clients; add --allow-remote to allow that"
        )


def read_users(file: Path) -> dict[str, str]:
    """Names to passwords from lines NAME:PASSWORD. ConfigurationError, without any content of the file."""
    users: dict[str, str] = {}
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError):
        raise ConfigurationError(f"--user-file {file} cannot be read as text") from None
    for number, line in enumerate(lines, 1):
        name, colon, password = line.partition(":")
        if not (name and colon and password):
            raise ConfigurationError(f"line {number} of --user-file {file} is not NAME:PASSWORD")
        users[name] = password
    if not users:
        raise ConfigurationError(f"--user-file {file} names no user; without users there is no authentication")
    return users


def tls_of(
    certificate: str | None, key: str | None, client_ca: str | None, master_port: int, broker_port: int
) -> ServerTls | None:
    """The servers' TLS; None without a certificate. ConfigurationError if another option of TLS is given without it."""
    if certificate is not None:
        return ServerTls(certificate, key, client_ca, master_port, broker_port)
    others = {
        "--tls-key": key,
        "--tls-client-ca": client_ca,
        "--master-tls-port": master_port,
        "--broker-tls-port": broker_port,
    }
    for name, value in others.items():
        if value:
            raise ConfigurationError(f"{name} is given without --tls-certificate")
    return None


def serve(
    cluster: EmbeddedTubeMQ, log_level: str, ready_file: Path | None, *, as_json: bool, fill: Callable[[], None]
) -> None:
    """Run until SIGINT or SIGTERM; `fill` is called before it is said to be ready. ConfigurationError if it cannot
    start, OSError if a disk is full later or nobody takes the output."""
    if log_level.lower() not in _LEVELS:
        raise ConfigurationError(f"--log-level is {log_level!r}; write one of {', '.join(_LEVELS)}")
    # A page of offsets creates as many short-lived objects as there are partitions. With Python's default of 700, the
    # garbage collector would scan all objects several times per page.
    gc.set_threshold(100_000, 50, 100)
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Install the handlers first: a signal during the start must also stop cleanly.
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        cluster.start()
    except OSError as error:
        hint = "; end the program that listens there, or give another port" if error.errno == EADDRINUSE else ""
        raise ConfigurationError(f"{error}{hint}") from None
    try:
        fill()
        _announce(cluster, ready_file, as_json)
        # Short waits let signal handlers run soon on every platform.
        while not stopped.wait(0.2):
            pass
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
        cluster.stop()


def _announce(cluster: EmbeddedTubeMQ, ready_file: Path | None, as_json: bool) -> None:
    from embedded_tubemq.storage.files import write_atomically

    addresses = _addresses(cluster)
    if ready_file is not None:
        try:
            write_atomically(ready_file, json.dumps(addresses).encode())
        except OSError as error:
            reason = error.strerror or error
            raise ConfigurationError(f"--ready-file {ready_file} cannot be written: {reason}") from None
    if as_json:
        typer.echo(json.dumps(addresses))
        return
    typer.echo("embedded TubeMQ is ready; Ctrl-C ends it")
    typer.echo(f"  master    {addresses['master']}, web port {addresses['masterWebPort']}")
    if "masterTls" in addresses:
        typer.echo(f"            {addresses['masterTls']} over TLS")
    for broker in addresses["brokers"]:
        tls = f", over TLS {broker['tlsAddress']}" if "tlsAddress" in broker else ""
        typer.echo(f"  broker {broker['brokerId']:<2} {broker['address']}, web port {broker['webPort']}{tls}")
    typer.echo(f"for clients: --master-servers {addresses['master']} --option masterWebPort={cluster.master_web_port}")


def _addresses(cluster: EmbeddedTubeMQ) -> dict[str, Any]:
    brokers: list[dict[str, object]] = [
        {"brokerId": broker_id, "address": address, "webPort": cluster.broker_web_ports[broker_id]}
        for broker_id, address in cluster.broker_addresses.items()
    ]
    found: dict[str, Any] = {
        "master": cluster.master_address,
        "masterWebPort": cluster.master_web_port,
        "brokers": brokers,
    }
    if cluster.over_tls:
        found["masterTls"] = cluster.master_tls_address
        for broker, address in zip(brokers, cluster.broker_tls_addresses.values(), strict=True):
            broker["tlsAddress"] = address
    return found
