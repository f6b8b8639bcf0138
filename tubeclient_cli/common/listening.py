"""Addresses that commands listen on."""

from __future__ import annotations

from tubeclient.errors import ConfigurationError

__all__ = ["check_address"]


def check_address(option: str, address: str) -> None:
    """ConfigurationError if it is empty, as an unset variable is: a socket would listen on all of the machine's. Also
    for a name that resolvers do not take."""
    fault = "" if address.strip() else "empty"
    try:
        address.encode("idna")
    except UnicodeError:
        fault = f"{address!r}, which is no host's name"
    if fault:
        raise ConfigurationError(
            f"{option} is {fault}; give an address: 127.0.0.1 for this machine alone, 0.0.0.0 for all that reach it"
        )
