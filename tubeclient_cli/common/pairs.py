"""NAME=VALUE, as the command line takes options that have no flag of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tubeclient.errors import ConfigurationError

__all__ = ["further_options", "pairs"]

_FLAGS: Final = {"masterservers": "--master-servers", "consumergroup": "--consumer-group", "subscribe": "--topic"}


def pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """Names to values; ConfigurationError where one of them is no pair."""
    found = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            # Not the text: it may hold a secret.
            raise ConfigurationError(f"{flag} takes NAME=VALUE, and one of its values has no name or no equals sign")
        found[name.strip()] = value
    return found


def further_options(texts: list[str] | None, flags: Mapping[str, str]) -> dict[str, str]:
    """The source's options that `--option` gives.

    ConfigurationError for one that has a flag, of which one would be passed over; `flags` are the command's by the
    options' names in small letters, those that all commands have need not be named.
    """
    found = pairs("--option", texts)
    for name in found:
        flag = {**_FLAGS, **flags}.get(name.lower())
        if flag is not None:
            raise ConfigurationError(f"--option {name} has a flag of its own, {flag}")
    return found
