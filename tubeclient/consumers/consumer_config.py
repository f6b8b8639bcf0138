"""The settings of a consumer as plain values, without secrets: for logs, and for questions to whoever runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Final

from tubeclient.flows.read_plan import ReadPlan
from tubeclient.settings import ClientSettings

_OF_PLAN: Final = ("start_from", "prefetch", "confirm_timeout_ms", "fail_on_data_loss", "bad_messages")


def shown_config(settings: ClientSettings, plan: ReadPlan, given: Mapping[str, object]) -> dict[str, object]:
    """The fields of `settings`, what arguments `plan` has, and those `given`, by their names, of types that JSON has.
    What no `repr` of the settings shows, as passwords, is left out."""
    arguments = {"consumer_group": plan.group, "topics": plan.filters, **{key: getattr(plan, key) for key in _OF_PLAN}}
    return {**_fields(settings), **{name: _plain(value) for name, value in {**arguments, **given}.items()}}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return int(value)  # not a BootstrapOffset
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, re.Pattern):
        return value.pattern
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _fields(value) if is_dataclass(value) else str(value)


def _fields(value: object) -> dict[str, object]:
    assert is_dataclass(value)
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value) if field.repr}
