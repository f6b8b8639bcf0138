"""What a write is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from spark_source.options.access import AccessOptions, check_access
from spark_source.options.source_options import GivenOptions

__all__ = ["SinkOptions", "write_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(AccessOptions):
    """One field for each row of `option_table.OPTIONS` that writes have; it documents it."""

    message_time_zone: str
    topic: str | None


def write_options(given: GivenOptions) -> SinkOptions:
    """Return the options of a write. ConfigurationError: one is of no use there, missing, or contradicts another."""
    options = SinkOptions(given=given.names, **given.of("write"))
    check_access(options)
    return options
