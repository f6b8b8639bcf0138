"""TLS of the embedded servers: listeners of their own, beside the plain ones."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from tubeclient.errors import ConfigurationError

__all__ = ["ServerTls"]


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The certificate that master and brokers show, in PEM form, and the ports they show it on.

    With `client_ca_file` clients have to show one too, signed by one of those in that file (two-way TLS). Ports of 0
    are chosen by the system; with a `broker_port`, broker n listens on `broker_port + n - 1`.
    """

    certificate_file: str
    key_file: str | None = None
    """None where `certificate_file` holds the key too."""
    client_ca_file: str | None = None
    master_port: int = 0
    broker_port: int = 0

    def context(self) -> ssl.SSLContext:
        """Read the files; ConfigurationError where they are no good."""
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
    # Without this, OpenSSL would ask at the terminal.
    raise ConfigurationError("the TLS key is encrypted; the embedded servers take it without a password only")
