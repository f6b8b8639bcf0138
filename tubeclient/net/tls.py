"""TLS contexts from settings, and advice for failed handshakes."""

from __future__ import annotations

import ssl

from tubeclient.errors import ConfigurationError
from tubeclient.net.streams import describe
from tubeclient.tls_settings import TlsSettings
from tubeclient.wire.strings import DEFAULT_BROKER_TLS_PORT, DEFAULT_MASTER_TLS_PORT

__all__ = ["REFUSED_ADVICE", "client_context", "handshake_advice", "looks_like_tls"]

# X509_V_ERR_* of OpenSSL.
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_HOST = (62, 64)

REFUSED_ADVICE = "if it asks for a client certificate, name one that it trusts as certificate_file"
"""For servers that end a connection at its start."""

_PORTS = (
    f"TLS has its own ports, by default {DEFAULT_MASTER_TLS_PORT} for masters and {DEFAULT_BROKER_TLS_PORT} for "
    "brokers; check the port, or give no TLS settings"
)


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Read the files and return the context for connections; ConfigurationError if a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_hostname
    # Trust every certificate in the file, self-signed or not, like a Java trust store.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(settings.ca_file)
        except OSError as error:
            raise ConfigurationError(_file_fault("ca_file", settings.ca_file, error, "certificate")) from error
    if settings.certificate_file is not None:
        _load_own(context, settings, settings.certificate_file)
    return context


def _load_own(context: ssl.SSLContext, settings: TlsSettings, certificate_file: str) -> None:
    def password() -> str:
        # Called only if the key is encrypted; without this, OpenSSL would prompt on the terminal.
        if not settings.has_key_password:
            raise ConfigurationError(f"the key in {key_file} is encrypted; give key_password_file or key_password_env")
        return settings.read_key_password()

    key_file = settings.key_file or certificate_file
    for name, file in (("certificate_file", certificate_file), ("key_file", key_file)):
        try:
            with open(file, "rb"):
                pass
        except OSError as error:
            raise ConfigurationError(_file_fault(name, file, error, "")) from error
    try:
        context.load_cert_chain(certificate_file, key_file, password)
    except OSError as error:
        raise ConfigurationError(
            f"certificate_file {certificate_file} and key_file {key_file} cannot be used ({describe(error)}): both "
            "must be PEM, the key must belong to the first certificate, and its password must be correct"
        ) from error


def _file_fault(name: str, file: str, error: OSError, content: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{name} {file} holds no {content} in PEM form ({describe(error)})"
    return f"cannot read {file}, named by {name}: {error.strerror or error}"


def handshake_advice(error: OSError, host: str) -> str:
    """Why a handshake with `host` failed, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_HOST:
            return (
                f"its certificate is for another name than {host} ({error.verify_message}); connect by a name in the "
                "certificate, or turn check_hostname off"
            )
        if error.verify_code in (_NOT_YET_VALID, _EXPIRED):
            return f"its certificate is out of date ({error.verify_message}); renew it, or set this machine's clock"
        return (
            f"its certificate is not trusted ({error.verify_message}); name a file with its signer's certificate as "
            "ca_file"
        )
    if isinstance(error, TimeoutError):
        return f"no answer to the TLS handshake; {_PORTS}"
    reason = describe(error)
    if "alert" in reason:
        return f"it refused the TLS handshake ({reason}); {REFUSED_ADVICE}"
    return f"the TLS handshake failed ({reason}); {_PORTS}"


def looks_like_tls(data: bytes | memoryview) -> bool:
    """Whether bytes in place of a frame's start are a TLS alert or handshake message."""
    return len(data) >= 2 and data[0] in (0x15, 0x16) and data[1] == 0x03
