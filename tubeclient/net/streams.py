"""The byte streams below a connection: plain TCP, or TLS over it.

One thread receives while another sends. `ssl.SSLSocket` does not support that, so TLS is done in memory here. A lock
guards its state while bytes are converted, never while waiting for the network.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from typing import cast

from tubeclient.errors import ConfigurationError
from tubeclient.settings import TlsSettings
from tubeclient.wire.strings import DEFAULT_BROKER_TLS_PORT, DEFAULT_MASTER_TLS_PORT

_RECEIVE_BYTES = 1 << 18
_ENCRYPT_BYTES = 1 << 18
"""So many bytes are encrypted before the receiving thread may use the TLS state again."""


def describe(error: OSError | UnicodeError) -> str:
    """The fault in words for a message."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)


class PlainStream:
    """Plain TCP over a connected socket. One thread may call `receive_into`, one at a time `send`, any the others."""

    def __init__(self, sock: socket.socket, send_timeout_ms: int) -> None:
        self._socket = sock
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The receiving thread waits without a limit, so the limit for sending cannot be the socket's Python timeout.
        limit = struct.pack("ll", send_timeout_ms // 1000, send_timeout_ms % 1000 * 1000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def receive_into(self, buffer: memoryview) -> int:
        """Wait for bytes and return how many were written into `buffer`; 0 at the end. OSError if the connection
        broke."""
        return self._socket.recv_into(buffer)

    def send(self, data: bytes) -> None:
        """Send all of `data`; OSError if that fails or takes too long."""
        self._socket.sendall(data)

    def shut_down(self) -> None:
        """End both directions; a waiting `receive_into` returns."""
        with contextlib.suppress(OSError):  # the peer was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class TlsStream(PlainStream):
    """TLS client over a connected socket. The constructor does the handshake, until `deadline` of time.monotonic().
    Raises OSError (such as `ssl.SSLError`) if it fails; the caller then closes the socket."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, host: str, deadline: float, send_timeout_ms: int
    ) -> None:
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = threading.Lock()  # guards the three above
        self._shake_hands(deadline)
        super().__init__(sock, send_timeout_ms)

    def receive_into(self, buffer: memoryview) -> int:
        while True:
            with self._lock:
                received = self._decrypt_into(buffer)
            if received is not None:
                return received
            self._take(self._socket.recv(_RECEIVE_BYTES))

    def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            with self._lock:
                piece = rest[:_ENCRYPT_BYTES]
                while piece:
                    piece = piece[self._tls.write(piece) :]
                encrypted = self._outgoing.read()
            # In the order of encryption: one thread sends at a time. Protocol messages, such as answers to received
            # ones, wait here for the next send.
            self._socket.sendall(encrypted)
            rest = rest[_ENCRYPT_BYTES:]

    def _shake_hands(self, deadline: float) -> None:
        while True:
            done = True
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                done = False
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._say(deadline)  # tells the peer the reason
                raise
            self._say(deadline)
            if done:
                return
            if time.monotonic() >= deadline:  # however much there is to receive: it may never be enough
                raise TimeoutError("timed out")
            self._take(self._socket.recv(_RECEIVE_BYTES))

    def _say(self, deadline: float) -> None:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        if self._outgoing.pending:
            self._socket.sendall(self._outgoing.read())

    def _take(self, data: bytes) -> None:
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def _decrypt_into(self, buffer: memoryview) -> int | None:
        """How many bytes were decrypted into `buffer`; 0 at the end, None if more must be received first."""
        total = 0
        try:
            while total < len(buffer):
                received = cast(int, self._tls.read(len(buffer) - total, buffer[total:]))  # a count: a buffer is given
                if not received:
                    break
                total += received
        except ssl.SSLWantReadError:
            return total or None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            # With or without TLS's close_notify: the frame decoder detects a cut frame.
            return total
        return total


REFUSED_ADVICE = "if it asks for a client certificate, set certificate_file to one that it trusts"
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
            raise ConfigurationError(
                f"ca_file {settings.ca_file} cannot be used ({describe(error)}): it must hold certificates in PEM form"
            ) from error
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
    try:
        context.load_cert_chain(certificate_file, key_file, password)
    except OSError as error:
        raise ConfigurationError(
            f"certificate_file {certificate_file} and key_file {key_file} cannot be used ({describe(error)}): both "
            "must be readable and PEM, the key must belong to the first certificate, and its password must be correct"
        ) from error


def handshake_advice(error: OSError, host: str) -> str:
    """Why a handshake with `host` failed, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is refused ({error.verify_message}): it must be valid today, its signer must be in "
            f"ca_file, and it must name {host}, unless check_hostname is off"
        )
    if isinstance(error, TimeoutError):
        return f"no answer to the TLS handshake; {_PORTS}"
    reason = describe(error)
    if "alert" in reason:
        return f"it refused the TLS handshake ({reason}); {REFUSED_ADVICE}"
    return f"the TLS handshake failed ({reason}); {_PORTS}"
