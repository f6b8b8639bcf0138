"""How to reach a cluster: a frozen value that every part of the client shares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tubeclient.arguments import checked_kind
from tubeclient.errors import ConfigurationError
from tubeclient.passwords import check_password_sources, is_utf8, read_password
from tubeclient.wire.strings import DEFAULT_MASTER_PORT, DEFAULT_MASTER_TLS_PORT, DEFAULT_MASTER_WEB_PORT


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS for all connections to masters and brokers. All files are PEM; they are read for each new connection.

    Masters and brokers have separate ports for TLS (by default 8716 and 8124). A master names brokers' TLS ports to
    clients that use TLS. Web ports have no TLS: those calls are not encrypted, and they carry no credentials.

    Raises:
        ConfigurationError: The parts do not fit together.
    """

    ca_file: str | None = None
    """Certificates of the authorities to trust. None: those that this machine trusts."""

    certificate_file: str | None = None
    """This client's own certificate, with the chain to its signer, if servers ask for one (two-way TLS)."""

    key_file: str | None = None
    """The private key of `certificate_file`. None if that file has it too."""

    key_password: str | None = field(default=None, repr=False)
    """The password of the key, if it is encrypted. Or name where it is, by `key_password_file` or `key_password_env`.
    """

    key_password_file: str | None = None
    key_password_env: str | None = None

    check_hostname: bool = True
    """Whether a server's certificate must name the host name or address of the connection. The master lists brokers by
    address: either their certificates name that address, or this must be false."""

    def __post_init__(self) -> None:
        for name in ("ca_file", "certificate_file", "key_file"):
            if getattr(self, name) == "":
                raise ConfigurationError(f"{name} is empty; name a file or leave it out")
        if self.key_file is not None and self.certificate_file is None:
            raise ConfigurationError("key_file is given without certificate_file; add certificate_file")
        if self.has_key_password and self.certificate_file is None:
            raise ConfigurationError("a key password is given without certificate_file; add certificate_file")

    @property
    def has_key_password(self) -> bool:
        """Whether a password for the key is given.

        Raises:
            ConfigurationError: Several are given.
        """
        return check_password_sources("key_password", self.key_password, self.key_password_file, self.key_password_env)

    def read_key_password(self) -> str:
        """Return the key's password as it is now.

        Raises:
            ConfigurationError: Its source gives none.
        """
        return read_password("key_password", self.key_password, self.key_password_file, self.key_password_env)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user, and where the password comes from.

    File and variable are read when a request is signed, so a new password counts at once, and a pickle of this holds no
    secret. The password is in no `repr` and no error.

        >>> Credentials("alice", password="secret")
        Credentials(user='alice', password_file=None, password_env=None)

    Args:
        password: The password itself.
        password_file: A file with the password, in UTF-8. A line end is not part of it.
        password_env: The name of an environment variable with the password.

    Raises:
        ConfigurationError: No source or several are given, or TubeMQ cannot carry the user's name.
    """

    user: str
    password: str | None = field(default=None, repr=False, kw_only=True)
    password_file: str | None = field(default=None, kw_only=True)
    password_env: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.user or any(character.isspace() for character in self.user):
            raise ConfigurationError(f"user {self.user!r} is empty or has a blank; TubeMQ does not allow that")
        if not is_utf8(self.user):
            raise ConfigurationError(f"user {self.user!r} is not UTF-8 text")
        if not check_password_sources("password", self.password, self.password_file, self.password_env):
            raise ConfigurationError(f"no password for user {self.user}; give password, password_file or password_env")

    def read_password(self) -> str:
        """Return the password as it is now.

        Raises:
            ConfigurationError: File or variable give none.
        """
        return read_password("password", self.password, self.password_file, self.password_env)


_LONGEST_CALL_MS = (1 << 31) - 1
_LABEL = "[A-Za-z0-9_-]{1,63}"  # resolvers raise UnicodeError for others
_ADDRESS = re.compile(rf"({_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{{1,5}}))?")


def parse_master_servers(
    text: str, *, tls: bool = False, setting: str = "master_servers", user_setting: str = "credentials"
) -> tuple[str, ...]:
    """Read "host:port,host:port".

        >>> parse_master_servers("10.0.0.1:8715,10.0.0.2")
        ('10.0.0.1:8715', '10.0.0.2:8715')

    Args:
        tls: Whether the port of an address without one is 8716, and not 8715.
        setting: The name of the setting in errors.
        user_setting: The name of the setting of a user in errors.

    Returns:
        The addresses with their ports, each once.

    Raises:
        ConfigurationError: The text has no address, something that is not host:port, or an @.
    """
    return _addresses([checked_kind(text, str, setting, '"10.0.0.1:8715"')], tls, setting, user_setting)


def _addresses(texts: Iterable[str], tls: bool, setting: str, user_setting: str) -> tuple[str, ...]:
    """The addresses in `texts`, each once; errors name the two settings."""
    default = DEFAULT_MASTER_TLS_PORT if tls else DEFAULT_MASTER_PORT
    addresses = []
    joined = ",".join(texts)
    if "@" in joined:  # not repeated: what is before it may be a password
        raise ConfigurationError(
            f"{setting} has an @; write host:port, such as 10.0.0.1:{default}, and name a user in {user_setting}"
        )
    for piece in filter(None, (part.strip() for part in joined.split(","))):
        match = _ADDRESS.fullmatch(piece)
        if match is None or not 0 < int(match[2] or default) < 65536:
            raise ConfigurationError(f"{setting} has {piece!r}, which is not host:port, such as 10.0.0.1:{default}")
        addresses.append(f"{match[1]}:{match[2] or default}")
    if not addresses:
        raise ConfigurationError(f"{setting} names no master; write host:port, such as 10.0.0.1:{default}")
    return tuple(dict.fromkeys(addresses))


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where the masters are, and the time limits of calls.

    Raises:
        ConfigurationError: A value cannot be.
    """

    master_servers: Sequence[str]
    """ "host:port" of every master of the cluster, active and standby: a text with commas between, or a sequence.
    Kept as a tuple. Without a port it is 8715, or 8716 over TLS."""

    master_web_port: int = DEFAULT_MASTER_WEB_PORT
    """The masters' HTTP port, which also tells the brokers' HTTP ports."""

    connect_timeout_ms: int = 3_000
    """For a TCP connection."""

    rpc_timeout_ms: int = 8_000
    """For one call, from sending the request to having its answer. A connection that brings none for so long is given
    up for another one. In a call to the masters each one has an equal part
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
        if not isinstance(given, list | tuple) or not all(isinstance(server, str) for server in given):
            kind = type(self.master_servers).__name__  # the value may be a password in the wrong place
            raise ConfigurationError(f"master_servers must be a host:port text or a list of them, not a {kind}")
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
