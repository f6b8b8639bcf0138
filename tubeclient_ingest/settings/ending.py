"""Where a run with `until` ends: its text as places, and whether they make sense. Pure, but for the time of day."""

from __future__ import annotations

import time
from dataclasses import replace

from spark_source.offsets.offset_spec import Moment, OffsetSpec, check_order, json_object
from spark_source.options.parsers import moment_ms
from tubeclient.errors import ConfigurationError


def parse_until(text: str) -> OffsetSpec:
    """Parse a time, or JSON of offsets. ConfigurationError for others, and for words, which move between two runs."""
    if (at_ms := moment_ms(text, "until")) is not None:
        return OffsetSpec("until", Moment(at_ms))
    found = OffsetSpec.parse(text, "until") if json_object(text, "until") else None
    if found is None or any(isinstance(place, str) for place in (found.default, *dict(found.named).values())):
        raise ConfigurationError(
            f"until is {text!r}; write a time such as 2026-11-21T10:31Z, or JSON from partition keys to offsets, as "
            'in {"1:clicks:0": 2800, "1:clicks:1": 2772}'
        )
    return found


def check_until(end: OffsetSpec, start: OffsetSpec) -> None:
    """Raise ConfigurationError for an `end` that is before `start`, as far as they tell, or has not passed yet."""
    if start.uses("latest"):
        raise ConfigurationError("starting-offsets is latest, so until leaves nothing to read; use earliest")
    check_order(replace(start, option="starting-offsets"), end)
    if isinstance(end.default, Moment) and end.default.timestamp_ms > time.time() * 1000:
        raise ConfigurationError(
            "until is a time that has not passed yet, so each run would end elsewhere; use one that has passed"
        )
