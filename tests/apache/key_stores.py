"""Java's key stores, made from PEM files with `openssl` and with the `keytool` that is part of every JDK."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.apache.jars import java_executable
from tests.apache.settings import ServerTls
from tests.certificates import Certificate, CertificateAuthority

__all__ = ["server_tls"]

# Not a secret: the stores live in a test's folder. Six characters are the least keytool takes.
_PASSWORD: Final = "fixture"
_SECONDS: Final = 60


def server_tls(folder: Path, shown: Certificate, trusted: CertificateAuthority, *, two_way: bool) -> ServerTls:
    """What lets a server show `shown` and trust clients whom `trusted` signed."""
    tls = ServerTls(folder / "keys.p12", folder / "trusted.p12", _PASSWORD, two_way)
    # Java reads PKCS12 where TubeMQ asks for "JKS".
    _run(
        *("openssl", "pkcs12", "-export", "-in", shown.certificate_file, "-inkey", shown.key_file),
        *("-out", str(tls.key_store), "-passout", f"pass:{_PASSWORD}"),
    )
    _run(
        *(str(Path(java_executable()).with_name("keytool")), "-importcert", "-noprompt", "-file", trusted.ca_file),
        *("-alias", "ca", "-keystore", str(tls.trust_store), "-storetype", "PKCS12", "-storepass", _PASSWORD),
    )
    return tls


def _run(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
