"""Who the options say we are, and how connections are protected.

Planner and tasks need both: masters and brokers each want a signature of whoever talks to them, and accept one for
some seconds only, so that nobody can sign in advance for a task. What stands in files and environment variables is
read by the process that uses it and is never sent anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tubeclient.credentials import Credentials
from tubeclient.errors import ConfigurationError
from tubeclient.identity import host_name
from tubeclient.tls_settings import TlsSettings

__all__ = ["AccessOptions", "asks_for_tls", "check_access", "check_here", "credentials", "tls_settings", "uses_tls"]

_PASSWORDS: Final = ("authPassword", "authPasswordFile", "authPasswordEnv")
_KEY_PASSWORDS: Final = ("tls.keyPassword", "tls.keyPasswordFile", "tls.keyPasswordEnv")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """How the cluster is reached and as whom: what reads and writes have in common. `option_table.OPTIONS` documents
    the fields.
    """

    master_servers: tuple[str, ...]
    master_web_port: int
    rpc_timeout_ms: int
    retry_limit_ms: int
    auth_user: str | None
    auth_password: str | None = field(repr=False)
    auth_password_file: str | None
    auth_password_env: str | None
    tls_enabled: bool | None
    tls_ca_file: str | None
    tls_certificate_file: str | None
    tls_key_file: str | None
    tls_key_password: str | None = field(repr=False)
    tls_key_password_file: str | None
    tls_key_password_env: str | None
    tls_check_hostname: bool
    given: frozenset[str]
    """Names of the options that the user gave."""


def credentials(options: AccessOptions) -> Credentials | None:
    """Return the user; None where none is named."""
    if options.auth_user is None:
        return None
    return Credentials(
        options.auth_user,
        password=options.auth_password,
        password_file=options.auth_password_file,
        password_env=options.auth_password_env,
    )


def uses_tls(options: AccessOptions) -> bool:
    """Whether connections are encrypted."""
    return asks_for_tls(options.given, options.tls_enabled)


def asks_for_tls(given: Iterable[str], enabled: bool | None) -> bool:
    """Whether connections are encrypted, by the names of the options that were given and what tls.enabled says."""
    return any(name.startswith("tls.") for name in given) if enabled is None else enabled


def tls_settings(options: AccessOptions) -> TlsSettings | None:
    """Return how to speak TLS; None for plain connections."""
    if not uses_tls(options):
        return None
    return TlsSettings(
        options.tls_ca_file,
        options.tls_certificate_file,
        options.tls_key_file,
        options.tls_key_password,
        options.tls_key_password_file,
        options.tls_key_password_env,
        options.tls_check_hostname,
    )


def check_access(options: AccessOptions) -> None:
    """Raise ConfigurationError for options of this kind that do not fit together."""
    password, key_password = _one_of(options, _PASSWORDS), _one_of(options, _KEY_PASSWORDS)
    if options.auth_user is None and password is not None:
        raise ConfigurationError(f"{password} is given without authUser, the user whose password it is")
    if options.auth_user is not None and password is None:
        raise ConfigurationError(f"authUser is given without a password; add one of {', '.join(_PASSWORDS)}")
    own_key = "tls.keyFile" if options.tls_key_file is not None else key_password
    if own_key is not None and options.tls_certificate_file is None:
        raise ConfigurationError(f"{own_key} is given without tls.certificateFile, the certificate that the key is for")


def check_here(options: AccessOptions) -> None:
    """Raise ConfigurationError for a file or an environment variable that this process does not have."""
    files = {"authPasswordFile": options.auth_password_file}
    variables = {"authPasswordEnv": options.auth_password_env}
    if uses_tls(options):
        files |= {
            "tls.caFile": options.tls_ca_file,
            "tls.certificateFile": options.tls_certificate_file,
            "tls.keyFile": options.tls_key_file,
            "tls.keyPasswordFile": options.tls_key_password_file,
        }
        variables |= {"tls.keyPasswordEnv": options.tls_key_password_env}
    for name, file in files.items():
        try:
            if file is not None:
                open(file, "rb").close()
        except OSError as error:
            raise ConfigurationError(
                f"{name} names {file}, which cannot be read on {host_name()} ({error.strerror or error}); the file has "
                "to be there on the driver's machine and on every executor's"
            ) from None
    for name, variable in variables.items():
        if variable is not None and not os.environ.get(variable):
            raise ConfigurationError(
                f"{name} names the environment variable {variable}, which is not set on {host_name()}; set it for the "
                f"driver, and for executors as spark.executorEnv.{variable}"
            )


def _one_of(options: AccessOptions, names: tuple[str, ...]) -> str | None:
    """The one of the options that was given."""
    given = [name for name in names if name in options.given]
    if len(given) > 1:
        raise ConfigurationError(f"{' and '.join(given)} are given together; give one of them")
    return given[0] if given else None
