"""Errors of an offsets table.

    OffsetsTableError           the table cannot be used; the message says what, where and what to do
    ├── SchemaMismatch          what is at that place is not an offsets table
    ├── CommitConflict          another writer won every try
    ├── RunAlive                another run of the group wrote a moment ago
    └── SupersededRun           a newer run of the same group has taken over

No message holds the value of a storage option, but for an endpoint's address. No error has delta-rs's error as its
cause, because its text may hold such values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from tubeclient.printable import display_uri, without_passwords


class OffsetsTableError(Exception):
    """The offsets table cannot be read or written."""

    condition = "OFFSETS_TABLE_UNUSABLE"


class SchemaMismatch(OffsetsTableError):
    """What is at this place is not an offsets table.

    It is a file, other files, a Delta table with other columns, or it has rows that no release writes.
    """

    condition = "OFFSETS_TABLE_SCHEMA"


class CommitConflict(OffsetsTableError):
    """Other writers changed the group's rows during every try."""

    condition = "OFFSETS_TABLE_CONFLICT"


class RunAlive(OffsetsTableError):
    """A run of the group may be alive: it wrote less than a lease ago."""

    condition = "RUN_ALIVE"


class SupersededRun(OffsetsTableError):
    """A newer run of the group wrote to the table. This run must stop."""

    condition = "RUN_SUPERSEDED"


_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m|[^\x20-\x7e\u00a0-\uffff]+|[↳╰╭│─▶]+")
# A native stack that delta-rs appends to some errors: " 0: <unknown> 1: ... at ./nptl/...".
_NATIVE_STACK: Final = re.compile(r"\s0: (<unknown>|\S+) 1: .*$")
# Not secret, even as the value of a storage option.
_HARMLESS: Final = frozenset({"", "true", "false", "0", "1"})
_SECRET_NAME: Final = re.compile(r"secret|password|token|key|credential|sas", re.IGNORECASE)
_SHORTEST_MASKED: Final = 4
_LONGEST_TEXT: Final = 600


def scrub(text: str, storage_options: Mapping[str, str], uri: str = "") -> str:
    """Return `text` on one line, without colours, native stacks, values of storage options, or passwords of URIs. The
    address of an endpoint stays: it says what does not answer."""
    for secret in sorted(_secrets(storage_options), key=len, reverse=True):
        text = text.replace(secret, "***")
    if uri:
        text = text.replace(uri, display_uri(uri))
    line = without_passwords(" ".join(_ESCAPES.sub(" ", text).split()))
    return _NATIVE_STACK.sub("", line)[:_LONGEST_TEXT]


def _secrets(storage_options: Mapping[str, str]) -> Iterable[str]:
    for name, value in storage_options.items():
        if "endpoint" in name.lower() and "://" in value and display_uri(value) == value:
            continue
        # Mask short values only if the option's name says secret: "***" everywhere would hide the fault.
        if value.lower() not in _HARMLESS and (len(value) >= _SHORTEST_MASKED or _SECRET_NAME.search(name)):
            yield from {value, quote(value, safe=""), quote(value)}
