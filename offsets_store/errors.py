"""Errors of an offsets table.

    OffsetsTableError           the table cannot be used; the message says what, where and what to do
    ├── SchemaMismatch          what is at that place is not an offsets table
    ├── CommitConflict          another writer won every try
    ├── RunAlive                another run of the group wrote a moment ago
    ├── NoSuchCommit            a group has no such commit, or the table no longer keeps it
    ├── VersionGone             a version of the table cannot be read, usually because it is past the retention
    └── SupersededRun           a newer run of the same group has taken over

No message holds the value of a storage option, but for an endpoint's address. No error has delta-rs's error as its
cause, because its text may hold such values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from tubeclient.printable import without_passwords

__all__ = [
    "CommitConflict",
    "NoSuchCommit",
    "OffsetsTableError",
    "RunAlive",
    "SchemaMismatch",
    "SupersededRun",
    "VersionGone",
    "display_uri",
    "scrub",
]


class OffsetsTableError(Exception):
    """The offsets table cannot be read or written."""

    condition = "OFFSETS_TABLE_UNUSABLE"


class SchemaMismatch(OffsetsTableError):
    """What is at this place is no offsets table: a file, other files, a Delta table with other columns, or rows that no
    release writes."""

    condition = "OFFSETS_TABLE_SCHEMA"


class CommitConflict(OffsetsTableError):
    """Other writers changed the group's rows during every try."""

    condition = "OFFSETS_TABLE_CONFLICT"


class NoSuchCommit(OffsetsTableError):
    """The group has no commit of this number, or the table no longer keeps it."""

    condition = "COMMIT_NOT_FOUND"


class VersionGone(OffsetsTableError):
    """A version of the Delta table does not exist, or no longer exists.

    `version` was requested, `newest` is the table's newest version; -1 if there is no table.
    """

    condition = "OFFSETS_TABLE_VERSION_GONE"

    def __init__(self, uri: str, version: int, newest: int, reason: str = "") -> None:
        if 0 <= version <= newest:
            text = (
                f"is not kept any more ({reason}). The table keeps its log for delta.logRetentionDuration and its files"
                " until they are vacuumed, both a day by default; `history` lists what there is"
            )
        else:
            text = f"does not exist; {f'the newest is {newest}' if newest >= 0 else 'there is no table yet'}"
        super().__init__(f"version {version} of the offsets table at {uri} {text}")
        self.uri = uri
        self.version = version
        self.newest = newest
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return VersionGone, (self.uri, self.version, self.newest, self.reason)


class RunAlive(OffsetsTableError):
    """A run of the group may be alive: it wrote less than a lease ago.

    `epoch` is that run's, in milliseconds since 1970; `updated_at` is its last write, by its machine's clock.
    """

    condition = "RUN_ALIVE"

    def __init__(self, consumer_group: str, epoch: int, updated_at: datetime, lease_ms: int) -> None:
        super().__init__(
            f"group {consumer_group!r}: the run that started at {_moment(epoch)} (epoch {epoch}) wrote offsets at"
            f" {updated_at.astimezone(UTC).isoformat(timespec='seconds')}, less than {lease_ms / 1000:g} s ago, and may"
            " be alive. Stop it and wait that long, or force the take-over (of `tubeclient offsets reset`: --force):"
            " the other run then stops at its next commit"
        )
        self.consumer_group = consumer_group
        self.epoch = epoch
        self.updated_at = updated_at
        self.lease_ms = lease_ms

    def __reduce__(self) -> tuple[object, ...]:
        return RunAlive, (self.consumer_group, self.epoch, self.updated_at, self.lease_ms)


class SupersededRun(OffsetsTableError):
    """A newer run of the group wrote to the table; this run must stop.

    `own_epoch` and `newer_epoch` are milliseconds since 1970; `updated_at` is the newer run's last write.
    """

    condition = "RUN_SUPERSEDED"

    def __init__(self, consumer_group: str, own_epoch: int, newer_epoch: int, updated_at: datetime) -> None:
        super().__init__(
            f"group {consumer_group!r}: the run that started at {_moment(own_epoch)} (epoch {own_epoch}) was superseded"
            f" by the run that started at {_moment(newer_epoch)} (epoch {newer_epoch}), which wrote offsets last at"
            f" {updated_at.astimezone(UTC).isoformat(timespec='seconds')}. Only one query may use a group:"
            " stop one of the two, or give it a consumerGroup of its own"
        )
        self.consumer_group = consumer_group
        self.own_epoch = own_epoch
        self.newer_epoch = newer_epoch
        self.updated_at = updated_at

    def __reduce__(self) -> tuple[object, ...]:
        return SupersededRun, (self.consumer_group, self.own_epoch, self.newer_epoch, self.updated_at)


def _moment(epoch_ms: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return "no time that there is"  # another tool wrote the epoch


_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m|[^\x20-\x7e\u00a0-\uffff]+|[↳╰╭│─▶]+")
# A native stack that delta-rs appends to some errors: " 0: <unknown> 1: ... at ./nptl/...".
_NATIVE_STACK: Final = re.compile(r"\s0: (<unknown>|\S+) 1: .*$")
# Not secret, even as the value of a storage option.
_HARMLESS: Final = frozenset({"", "true", "false", "0", "1"})
_SECRET_NAME: Final = re.compile(r"secret|password|token|key|credential|sas", re.IGNORECASE)
_SHORTEST_MASKED: Final = 4
_LONGEST_TEXT: Final = 600


def display_uri(uri: str) -> str:
    """The URI without user, password and query, which hold secrets for some stores."""
    if "://" not in uri:
        return uri
    parts = urlsplit(without_passwords(uri))
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


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
