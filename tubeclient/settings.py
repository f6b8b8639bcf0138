"""How to reach a cluster: a frozen value that every part of the client shares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tubeclient.arguments import checked_kind
from tubeclient.credentials import Credentials
from tubeclient.errors import ConfigurationError
from tubeclient.tls_settings import TlsSettings
from tubeclient.wire.strings import DEFAULT_MASTER_PORT, DEFAULT_MASTER_TLS_PORT, DEFAULT_MASTER_WEB_PORT

__all__ = ["ClientSettings", "checked_settings", "parse_master_servers"]

_LONGEST_CALL_MS = (1 << 31) - 1
_LABEL = "[A-Za-z0-9_-]{1,63}"  # resolvers raise UnicodeError for others
_ADDRESS = re.compile(rf"({_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{{1,5}}))?")


def parse_master_servers(text: str, *, tls: bool = False) -> tuple[str, ...]:
    """Read "host:port,host:port". Without a port it is the masters' default, 8715, or 8716 over TLS."""
    return _addresses([checked_kind(text, str, "masterServers", '"10.0.0.1:8715"')], tls, "masterServers", "authUser")


def _addresses(texts: Iterable[str], tls: bool, setting: str, user_setting: str) -> tuple[str, ...]:
    """The addresses in `texts`, each once; errors name the two settings."""
    default = DEFAULT_MASTER_TLS_PORT if tls else DEFAULT_MASTER_PORT
    addresses = []
    joined = ",".join(texts)
    if "@" in joined:  # not repeated: what is before it may be a password
        raise ConfigurationError(
            f"{setting} has an @; write host:port, as in 10.0.0.1:{default}, and name a user in {user_setting}"
        )
    for piece in filter(None, (part.strip() for part in joined.split(","))):
        match = _ADDRESS.fullmatch(piece)
        if match is None or not 0 < int(match[2] or default) < 65536:
            raise ConfigurationError(f"{piece!r} in {setting} is not host:port, as in 10.0.0.1:{default}")
        addresses.append(f"{match[1]}:{match[2] or default}")
    if not addresses:
        raise ConfigurationError(f"{setting} names no master; write host:port, as in 10.0.0.1:{default}")
    return tuple(dict.fromkeys(addresses))


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where the masters are, and the time limits of calls. ConfigurationError for values that cannot be."""

    master_servers: Sequence[str]
    """ "host:port" of every master of the cluster, active and standby: a text with commas between, or a sequence.
    Kept as a tuple. Without a port it is 8715, or 8716 over TLS."""

    master_web_port: int = DEFAULT_MASTER_WEB_PORT
    """The masters' HTTP port, which also tells the brokers' HTTP ports."""

    connect_timeout_ms: int = 3_000
    """For a TCP connection."""

    rpc_timeout_ms: int = 8_000
    """For one call, from sending the request to having its answer. In a call to the masters each one has an equal part
    of this time, so that a wrong address is known within 10 s."""

    http_timeout_ms: int = 2_000
    """For one HTTP query of a master or broker."""

    retry_limit_ms: int = 60_000
    """How long a reader or sender tries again after faults that may pass."""

    credentials: Credentials | None = None
    """The user, if the cluster requires authentication."""

    tls: TlsSettings | None = None
    """TLS with masters and brokers; None means plain TCP."""

    def __post_init__(self) -> None:
        given: object = [self.master_servers] if isinstance(self.master_servers, str) else self.master_servers
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
            kind = type(self.master_servers).__name__  # the value may be a password in the wrong place
            raise ConfigurationError(f"master_servers must be host:port as a text, or a list of such; not a {kind}")
        addresses = _addresses(given, self.tls is not None, "master_servers", "credentials")
        object.__setattr__(self, "master_servers", addresses)
        if self.credentials is not None:
            checked_kind(self.credentials, Credentials, "credentials", 'Credentials("alice", password_env="PW")')
        if self.tls is not None:
            checked_kind(self.tls, TlsSettings, "tls", "TlsSettings()")
        port: object = self.master_web_port
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise ConfigurationError(f"master_web_port must be a number from 1 to 65535, not {port!r}")
        for name in ("connect_timeout_ms", "rpc_timeout_ms", "http_timeout_ms", "retry_limit_ms"):
            limit = getattr(self, name)
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
                raise ConfigurationError(f"{name} must be a number of milliseconds above 0, not {limit!r}")
            if name != "retry_limit_ms":  # a call's limits go to the system and to the servers, in whole milliseconds
                if not 1 <= limit <= _LONGEST_CALL_MS:
                    raise ConfigurationError(f"{name} must be 1 to {_LONGEST_CALL_MS} milliseconds, not {limit!r}")
                object.__setattr__(self, name, int(limit))


def checked_settings(settings: object) -> ClientSettings:
    """Return `settings` if that is what they are; ConfigurationError for an address alone, and anything else."""
    return checked_kind(settings, ClientSettings, "settings", 'ClientSettings("10.0.0.1:8715")')
