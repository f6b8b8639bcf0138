"""Time zones by their names."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from tubeclient.errors import ConfigurationError

__all__ = ["zone_named"]


def zone_named(name: str) -> ZoneInfo:
    """The zone of that name in this machine's IANA database; ConfigurationError if there is none."""
    try:
        return ZoneInfo(name.strip())
    except (ValueError, KeyError, OSError) as error:
        raise ConfigurationError(
            f"{name!r} is not a time zone; give a name of the IANA database, such as UTC or Asia/Shanghai"
        ) from error
