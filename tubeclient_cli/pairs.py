"""NAME=VALUE, as the command line takes options that have no flag of their own."""

from __future__ import annotations

from tubeclient.errors import ConfigurationError

__all__ = ["pairs"]


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
