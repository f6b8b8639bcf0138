"""NAME=VALUE: options without a flag of their own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tubeclient.errors import ConfigurationError

__all__ = ["further_options", "pairs", "spark_confs"]

_FLAGS: Final = {"masterservers": "--master-servers", "consumergroup": "--consumer-group", "subscribe": "--topic"}


def pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """Names to values. ConfigurationError if a text is not a pair."""
    found = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            # Without the text: it may hold a secret.
            raise ConfigurationError(f"{flag} takes NAME=VALUE, and one of its values has no name or no equals sign")
        found[name.strip()] = value
    return found


def spark_confs(texts: list[str] | None) -> dict[str, str]:
    """Spark's settings given with `--conf`. ConfigurationError for one that ingest jobs have a setting for."""
    from spark_source.session_confs import SESSION_ZONE

    found = pairs("--conf", texts)
    if SESSION_ZONE in found:
        raise ConfigurationError(f"--conf {SESSION_ZONE} has a setting of its own, time-zone; set it there")
    return found


def further_options(texts: list[str] | None, flags: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The source's options given with `--option`.

    ConfigurationError for an option that has a flag. `flags` maps the command's options, in lower case, to their flags;
    flags that all commands share need not be in it.
    """
    found = pairs("--option", texts)
    for name in found:
        flag = {**_FLAGS, **flags}.get(name.lower())
        if flag is not None:
            raise ConfigurationError(f"--option {name} has a flag of its own, {flag}")
    return found
