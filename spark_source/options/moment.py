"""Times and lengths of time on a command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from tubeclient.errors import ConfigurationError

__all__ = ["duration_ms", "moment_ms"]


def moment_ms(text: str, where: str, zone: tzinfo = UTC) -> int | None:
    """Milliseconds since 1970 of a time such as 2026-11-21T10:31Z; None if `text` is not a time.

    `zone` applies to times that name none; `where` is the option's name. ConfigurationError for a time before 1970.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    if since.days < 0:
        raise ConfigurationError(f"{where} is {text!r}, which is before 1970; write earliest")
    return since // timedelta(milliseconds=1)


def duration_ms(where: str, text: str) -> int:
    """Milliseconds of a length of time such as 30s, 5m or 2h. `where` is the option's name. ConfigurationError for any
    other text."""
    from spark_source.options.parsers import duration_ms as parser

    try:
        return parser(1)(text)
    except ValueError as error:
        raise ConfigurationError(f"{where} {error}") from None
