"""User, password and TLS: who the client is, and how connections are protected.

Planner and tasks need both. Masters and brokers each require a signature of their client, valid for some seconds only,
so nobody can sign in advance for a task. Files are read by the process that needs them; their content is never sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spark_source.options import parsers as to
from spark_source.options.option import option, optional, options_of, required
from tubeclient.errors import ConfigurationError
from tubeclient.identity import host_name
from tubeclient.settings import ClientSettings, Credentials, TlsSettings

_PASSWORDS: Final = ("authPassword", "authPasswordFile")


@dataclass(frozen=True, kw_only=True)
class ConnectingOptions:
    """The connection to the cluster."""

    master_servers: tuple[str, ...] = required(
        "masterServers",
        to.servers,
        "The cluster's masters, active and standby: `host:port` separated by commas; without a port 8715, or "
        "8716 over TLS.",
    )
    master_web_port: int = option(
        "masterWebPort",
        to.integer(1, 65535),
        "8080",
        "The masters' HTTP port, which also gives the brokers' HTTP ports. If they cannot be reached, offsets are "
        "looked up with TubeMQ's own protocol. Writes only ask it whether a topic exists that takes no messages.",
    )
    rpc_timeout_ms: int = option(
        "rpcTimeout",
        to.duration_ms(100),
        "8s",
        "How long one call to a broker may take, or to all masters in turn.",
        internal=True,
    )
    retry_limit_ms: int = option(
        "retryLimit",
        to.duration_ms(1_000),
        "60s",
        "How long reads retry without any progress before they fail; for writes, how long one message is tried.",
    )


@dataclass(frozen=True, kw_only=True)
class AccessOptions(ConnectingOptions):
    """Connection and identity: shared by reads and writes."""

    auth_user: str | None = optional(
        "authUser",
        to.user,
        None,
        "none",
        "The user, if masters and brokers require one. One of the next two options gives the password.",
    )
    auth_password: str | None = optional(
        "authPassword",
        to.password,
        None,
        "none",
        "The user's password. Brokers require a signature from each task, so this text is sent to every task; the next "
        "option sends only the name of the file.",
        secret=True,
    )
    auth_password_file: str | None = optional(
        "authPasswordFile",
        to.file,
        None,
        "none",
        "A file with the password, at the same path on the driver's machine and on every executor's. It is read for "
        "each signature.",
    )
    tls_enabled: bool | None = optional(
        "tls.enabled",
        to.boolean,
        None,
        "`true` if another `tls.` option is set, otherwise `false`",
        "Whether connections to masters and brokers are encrypted. TubeMQ has separate ports for TLS; a master's "
        "default is 8716. The web ports have no TLS.",
    )
    tls_ca_file: str | None = optional(
        "tls.caFile",
        to.file,
        None,
        "the machine's trust store",
        "Certificates of the authorities that sign the servers' certificates. This and all files below: PEM, at the "
        "same path on the driver's machine and on every executor's.",
    )
    tls_certificate_file: str | None = optional(
        "tls.certificateFile",
        to.file,
        None,
        "none",
        "The client's certificate with its chain, if servers require one (two-way TLS).",
    )
    tls_key_file: str | None = optional(
        "tls.keyFile", to.file, None, "`tls.certificateFile`", "The private key of that certificate, not encrypted."
    )
    tls_check_hostname: bool = option(
        "tls.checkHostname",
        to.boolean,
        "true",
        "Whether a server's certificate must name the host of the connection. For brokers that is the address in the "
        "master's list: either their certificates name it, or set this to `false`.",
    )
    given: frozenset[str] = frozenset()
    """Names of the options that the user set."""

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return asks_for_tls(self.given, self.tls_enabled)

    def check(self) -> None:
        """Raise ConfigurationError for options that contradict each other."""
        given = [name for name in _PASSWORDS if name in self.given]
        if len(given) > 1:
            raise ConfigurationError(f"{' and '.join(given)} exclude each other; give only one of them")
        if self.auth_user is None and given:
            raise ConfigurationError(f"{given[0]} is given without authUser; add authUser")
        if self.auth_user is not None and not given:
            raise ConfigurationError(f"authUser is given without a password; add one of {', '.join(_PASSWORDS)}")
        if self.tls_key_file is not None and self.tls_certificate_file is None:
            raise ConfigurationError(
                "tls.keyFile is given without tls.certificateFile, the certificate that the key is for"
            )

    def check_files(self) -> None:
        """Raise ConfigurationError for a file that this process cannot read."""
        for field, declared in options_of(AccessOptions).items():
            named = getattr(self, field) if declared.parse is to.file else None
            if named is None or (declared.name.startswith("tls.") and not self.uses_tls):
                continue
            try:
                open(named, "rb").close()
            except OSError as error:
                raise ConfigurationError(
                    f"{declared.name} names {named}, which cannot be read on {host_name()} "
                    f"({error.strerror or error}); the file must exist on the driver's machine and on every executor's",
                    condition="FILE_NOT_READABLE",
                ) from None


def asks_for_tls(given: Iterable[str], enabled: bool | None) -> bool:
    """Whether connections are encrypted, from the names of the set options and the value of tls.enabled."""
    return any(name.startswith("tls.") for name in given) if enabled is None else enabled


def client_settings(options: AccessOptions) -> ClientSettings:
    """Return the client settings; the same for planner and tasks, reads and writes. ConfigurationError: a file that
    the options name does not exist on this machine."""
    options.check_files()
    user, tls = options.auth_user, None
    if options.uses_tls:
        tls = TlsSettings(
            options.tls_ca_file,
            options.tls_certificate_file,
            options.tls_key_file,
            check_hostname=options.tls_check_hostname,
        )
    password, file = options.auth_password, options.auth_password_file
    return ClientSettings(
        options.master_servers,
        master_web_port=options.master_web_port,
        rpc_timeout_ms=options.rpc_timeout_ms,
        retry_limit_ms=options.retry_limit_ms,
        credentials=None if user is None else Credentials(user, password=password, password_file=file),
        tls=tls,
    )
