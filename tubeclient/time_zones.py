"""Time zones by their names."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from tubeclient.errors import ConfigurationError

__all__ = ["zone_named"]


def zone_named(name: str) -> ZoneInfo:
    """The zone that this machine's IANA data base has under `name`; ConfigurationError where it has none."""
    try:
        return ZoneInfo(name.strip())
    except (ValueError, KeyError, OSError) as error:
        raise ConfigurationError(
            f"{name!r} is no time zone; give a name of the IANA data base, such as UTC or Asia/Shanghai"
        ) from error
