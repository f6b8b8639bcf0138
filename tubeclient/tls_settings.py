"""The client's TLS: trusted certificates, and the client's own certificate."""

from __future__ import annotations

from dataclasses import dataclass, field

from tubeclient.errors import ConfigurationError
from tubeclient.passwords import check_password_sources, read_password

__all__ = ["TlsSettings"]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS for all connections to masters and brokers. All files are PEM; they are read for each new connection.

    Masters and brokers have separate ports for TLS (by default 8716 and 8124). A master names brokers' TLS ports to
    clients that use TLS. Web ports have no TLS: those calls are not encrypted, and they carry no credentials. Raises
    ConfigurationError for parts that do not fit together.
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
        """Whether a password for the key is given. ConfigurationError if several are."""
        return check_password_sources("key_password", self.key_password, self.key_password_file, self.key_password_env)

    def read_key_password(self) -> str:
        """Return the key's password as it is now. ConfigurationError if its source gives none."""
        return read_password("key_password", self.key_password, self.key_password_file, self.key_password_env)
