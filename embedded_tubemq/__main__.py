"""`python -m embedded_tubemq`: run a TubeMQ master and brokers in this process until a signal stops it."""

from __future__ import annotations

import argparse
import gc
import ipaddress
import json
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from embedded_tubemq.cluster import DEFAULT_TOKEN, EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.net.tls import ServerTls
from embedded_tubemq.storage.files import write_atomically
from tubeclient.errors import ConfigurationError

__all__ = ["main"]

_DESCRIPTION = (
    "Run an embedded TubeMQ: one master and some brokers in this process, speaking TubeMQ's wire protocol. "
    "It has no replication and no flow control: use it for tests, demos and benchmarks."
)
_EPILOG = """\
examples:
  python -m embedded_tubemq --data-dir demo-data --topic flights:2:4
      one broker; topic flights has 2 stores of 4 partitions each; free ports are chosen and printed
  python -m embedded_tubemq --data-dir demo-data --brokers 3 --master-port 8715 --master-web-port 8080 --topic clicks
      three brokers; the master listens where clients look for it by default

The data directory keeps topics, messages and groups' offsets for the next start. SIGINT or SIGTERM stop it cleanly.
The line printed when it is ready, and the ready file, name all addresses.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; returns the exit code, 2 for a user error."""
    options = _parser().parse_args(arguments)
    # A page of offsets creates as many short-lived objects as there are partitions. With Python's default of 700, the
    # garbage collector would scan all objects several times per page.
    gc.set_threshold(100_000, 50, 100)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Install the handlers first: a signal during the start must also stop cleanly.
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        cluster = _cluster(options)
        cluster.start()
    except (ConfigurationError, OSError) as error:
        print(f"embedded_tubemq: {error}", file=sys.stderr)
        return 2
    try:
        _announce(cluster, options.ready_file)
        # Short waits let signal handlers run soon on every platform.
        while not stopped.wait(0.2):
            pass
    finally:
        if options.ready_file is not None:
            options.ready_file.unlink(missing_ok=True)
        cluster.stop()
    return 0


def _cluster(options: argparse.Namespace) -> EmbeddedTubeMQ:
    if not options.allow_remote and not _is_loopback(options.host):
        raise ConfigurationError(
            f"--host {options.host} is reachable from other machines, and this server does not authenticate clients; "
            "add --allow-remote to allow that"
        )
    return EmbeddedTubeMQ(
        options.data_dir,
        [TopicConfig.parse(text) for text in options.topic],
        options.brokers,
        host=options.host,
        master_port=options.master_port,
        master_web_port=options.master_web_port,
        broker_port=options.broker_port,
        token=options.token,
        users=_users(options.user_file) if options.user_file is not None else None,
        tls=_tls(options),
        check_visit_token=options.check_visit_token,
    )


def _users(file: Path) -> dict[str, str]:
    users: dict[str, str] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        # Show none of the content.
        raise ConfigurationError(f"--user-file {file} cannot be read as text") from None
    for number, line in enumerate(lines, 1):
        name, colon, password = line.partition(":")
        if not (name and colon and password):
            raise ConfigurationError(f"line {number} of --user-file {file} is not NAME:PASSWORD")
        users[name] = password
    if not users:
        raise ConfigurationError(f"--user-file {file} names no user; without users there is no authentication")
    return users


def _tls(options: argparse.Namespace) -> ServerTls | None:
    if options.tls_certificate is None:
        for name in ("tls_key", "tls_client_ca", "master_tls_port", "broker_tls_port"):
            if getattr(options, name):
                raise ConfigurationError(f"--{name.replace('_', '-')} is given without --tls-certificate")
        return None
    return ServerTls(
        options.tls_certificate,
        options.tls_key,
        options.tls_client_ca,
        options.master_tls_port,
        options.broker_tls_port,
    )


def _announce(cluster: EmbeddedTubeMQ, ready_file: Path | None) -> None:
    brokers: list[dict[str, object]] = [
        {"brokerId": broker_id, "address": address, "webPort": cluster.broker_web_ports[broker_id]}
        for broker_id, address in cluster.broker_addresses.items()
    ]
    addresses: dict[str, object] = {
        "master": cluster.master_address,
        "masterWebPort": cluster.master_web_port,
        "brokers": brokers,
    }
    master = f"{cluster.master_address} (web {cluster.master_web_port})"
    if cluster.over_tls:
        addresses["masterTls"] = cluster.master_tls_address
        master += f", over TLS {cluster.master_tls_address}"
        for broker, address in zip(brokers, cluster.broker_tls_addresses.values(), strict=True):
            broker["tlsAddress"] = address
    if ready_file is not None:
        write_atomically(ready_file, json.dumps(addresses).encode())
    listed = ", ".join(f"{item['brokerId']} at {item['address']} (web {item['webPort']})" for item in brokers)
    print(f"embedded TubeMQ is ready: master {master}; brokers {listed}", flush=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m embedded_tubemq",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data-dir", type=Path, required=True, metavar="DIR", help="where all data is kept; created if missing")
    add(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:STORES[:PARTITIONS]]",
        help="a topic of every broker, with that many stores, and partitions per store (default 1 and 1); "
        "may be repeated; an existing topic may grow",
    )
    add("--brokers", type=int, default=1, metavar="N", help="number of brokers, ids 1 to N (default 1)")
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    add("--allow-remote", action="store_true", help="allow a --host that other machines can reach")
    add("--master-port", type=int, default=0, metavar="P", help="the master's port (default: any free one)")
    add("--master-web-port", type=int, default=0, metavar="P", help="the master's HTTP port (default: any free one)")
    add("--broker-port", type=int, default=0, metavar="P", help="broker n listens on P+n-1 (default: any free ones)")
    add(
        "--token",
        default=DEFAULT_TOKEN,
        help=f"confModAuthToken that HTTP calls need for changes (default {DEFAULT_TOKEN})",
    )
    add(
        "--user-file",
        type=Path,
        metavar="F",
        help="file of lines NAME:PASSWORD: clients must sign as one of them (default: no authentication)",
    )
    add("--check-visit-token", action="store_true", help="brokers require the token that the master gives its clients")
    add("--tls-certificate", metavar="PEM", help="also listen on ports for TLS, with this certificate")
    add("--tls-key", metavar="PEM", help="its key, unencrypted (default: in the certificate's file)")
    add("--tls-client-ca", metavar="PEM", help="clients over TLS must have a certificate signed by one of these")
    add("--master-tls-port", type=int, default=0, metavar="P", help="the master's port for TLS (default: any free one)")
    add("--broker-tls-port", type=int, default=0, metavar="P", help="broker n's is P+n-1 (default: any free ones)")
    add(
        "--ready-file",
        type=Path,
        metavar="F",
        help="JSON file with all addresses: written when ready, removed at the end",
    )
    add(
        "--log-level",
        default="warning",
        choices=["debug", "info", "warning", "error"],
        help="level of the log on standard error (default warning)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
