"""How a client speaks TLS: whom it trusts, and the certificate it shows."""

from __future__ import annotations

from dataclasses import dataclass, field

from tubeclient.errors import ConfigurationError
from tubeclient.passwords import check_password_sources, read_password

__all__ = ["TlsSettings"]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS for all connections to masters and brokers. All files are PEM; they are read for each new connection.

    Masters and brokers have ports of their own for it (by default 8716 and 8124), and a master names brokers' TLS
    ports to those who come over TLS. Their web ports know no TLS: what is asked for there travels in the open, and
    no credentials do. Raises ConfigurationError for parts that do not fit together.
    """

    ca_file: str | None = None
    """Certificates of those who sign the servers' ones; None trusts whom this machine trusts."""

    certificate_file: str | None = None
    """This client's own certificate, with the chain to its signer, where servers ask for one (two-way TLS)."""

    key_file: str | None = None
    """The private key of `certificate_file`; None where that file holds it too."""

    key_password: str | None = field(default=None, repr=False)
    """What the key is encrypted with, if it is; `key_password_file` and `key_password_env` name where it stands."""

    key_password_file: str | None = None
    key_password_env: str | None = None

    check_hostname: bool = True
    """Whether a server's certificate must be for the host name or address that was connected to. TubeMQ's brokers are
    known by address as the master lists them: either their certificates name it, or this is to be false."""

    def __post_init__(self) -> None:
        for name in ("ca_file", "certificate_file", "key_file"):
            if getattr(self, name) == "":
                raise ConfigurationError(f"{name} is empty; name a file or leave it out")
        if self.key_file is not None and self.certificate_file is None:
            raise ConfigurationError("key_file is given without certificate_file; a key alone shows nothing")
        if self.has_key_password and self.certificate_file is None:
            raise ConfigurationError("a key password is given without certificate_file; there is no key to open")

    @property
    def has_key_password(self) -> bool:
        """Whether a password for the key is given; ConfigurationError where several are."""
        return check_password_sources("key_password", self.key_password, self.key_password_file, self.key_password_env)

    def read_key_password(self) -> str:
        """Return the key's password as it is now; ConfigurationError where its source does not give one."""
        return read_password("key_password", self.key_password, self.key_password_file, self.key_password_env)
