"""TLS of the embedded servers, on ports of their own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from tubeclient.errors import ConfigurationError

__all__ = ["ServerTls"]


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The servers' certificate, in PEM form, and their TLS ports.

    With `client_ca_file` clients need a certificate too, signed by one in that file (two-way TLS). The system chooses
    ports given as 0; with a `broker_port`, broker n listens on `broker_port + n - 1`.
    """

    certificate_file: str
    key_file: str | None = None
    """None if `certificate_file` holds the key too."""
    client_ca_file: str | None = None
    master_port: int = 0
    broker_port: int = 0

    def context(self) -> ssl.SSLContext:
        """Read the files. ConfigurationError if they cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate_file, self.key_file, _no_password)
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:
            files = ", ".join(filter(None, (self.certificate_file, self.key_file, self.client_ca_file)))
            raise ConfigurationError(f"the TLS files {files} cannot be used: {error}") from error
        return context


def _no_password() -> str:
    # Without this, OpenSSL would prompt on the terminal.
    raise ConfigurationError("the TLS key is encrypted; the embedded servers need a key without a password")
