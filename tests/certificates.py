"""Certificates for TLS tests, made with the `openssl` command in a folder of the test."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Certificate", "CertificateAuthority", "server_context"]

_SECONDS = 30


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, in PEM files."""

    certificate_file: str
    key_file: str


def server_context(shown: Certificate, client_ca_file: str | None = None) -> ssl.SSLContext:
    """For a server that shows a certificate and wants one of its clients, where somebody who signs them is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate_file, shown.key_file)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class CertificateAuthority:
    """Signs certificates; `ca_file` is what those who trust it need."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = folder / f"{name}.key"
        self.ca_file = str(folder / f"{name}.pem")
        usage = "keyUsage=critical,keyCertSign,cRLSign"  # Python 3.13 trusts no authority without it by default
        self._run(
            *("req", "-x509", *self._new_key(self._key), "-out", self.ca_file, "-subj", f"/CN={name}", "-days", "2"),
            *("-addext", usage),
        )

    def issue(
        self, name: str, *, host: str = "IP:127.0.0.1", days: int = 2, password: str | None = None
    ) -> Certificate:
        """Make a certificate for `host` ("IP:..." or "DNS:..."); with negative `days` it has expired already."""
        key, request, made = (self._folder / f"{name}.{ending}" for ending in ("key", "csr", "pem"))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={host}\n")
        self._run("req", *self._new_key(key, password), "-out", str(request), "-subj", f"/CN={name}")
        self._run(
            *("x509", "-req", "-in", str(request), "-out", str(made), "-days", str(days)),
            *("-CA", self.ca_file, "-CAkey", str(self._key), "-CAcreateserial", "-extfile", str(extensions)),
        )
        return Certificate(str(made), str(key))

    @staticmethod
    def _new_key(file: Path, password: str | None = None) -> list[str]:
        protection = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", str(file), *protection]

    @staticmethod
    def _run(*arguments: str) -> None:
        assert shutil.which("openssl"), "the tests of TLS need the openssl command on PATH"
        done = subprocess.run(
            ["openssl", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
