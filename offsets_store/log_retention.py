"""Chooses the entries of a Delta table's log to delete; pure, no I/O.

A commit per batch makes ten thousand versions in some hours. On a local disk each read of the log lists the whole
folder. Retention by time alone would let the log grow and slow each commit down.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

__all__ = ["HISTORY_COMMITS", "Entry", "commits_of", "expendable", "files_added", "files_to_delete"]

HISTORY_COMMITS: Final = 1_000
"""Time travel reaches at least so many of the newest commits, within the retention."""

# Commits, checkpoints of any kind and checksums. For a file of compacted commits, its last version counts.
_ENTRY: Final = re.compile(
    r"(?:\d{20}\.)?(\d{20})\.(?:(checkpoint\.parquet)|(json)|checkpoint\..+|compacted\.json|crc)"
)


class Entry(NamedTuple):
    """A file of the log."""

    version: int
    name: str
    is_commit: bool


def expendable(names: Iterable[str], keep: int) -> list[Entry]:
    """The log files that only versions older than the newest `keep` need; oldest first. `names` are file names.

    A version from a checkpoint on needs nothing before the checkpoint. So everything before the newest checkpoint with
    `keep` commits after it may go. [] if there is no such checkpoint.
    """
    entries: list[Entry] = []
    checkpoints: list[int] = []
    newest = 0
    for name in names:
        found = _ENTRY.fullmatch(name)
        if found is None:
            continue
        version, is_commit = int(found[1]), found[3] is not None and _is_single(name)
        entries.append(Entry(version, name, is_commit))
        if found[2] is not None:
            checkpoints.append(version)
        if is_commit:
            newest = max(newest, version)
    floor = max((version for version in checkpoints if version <= newest - keep), default=0)
    return sorted(entry for entry in entries if entry.version < floor)


def _is_single(name: str) -> bool:
    """Whether a name that ends in .json is one commit's."""
    return "." not in name.removesuffix(".json")


def commits_of(names: Iterable[str]) -> list[str]:
    """Those of the log's file names that are commits, oldest first."""
    found = ((name, _ENTRY.fullmatch(name)) for name in names)
    return sorted(name for name, entry in found if entry is not None and entry[3] is not None and _is_single(name))


def files_added(commit: str) -> list[str]:
    """Names, without folder, of the data files that a commit added to the table. `commit` is its log entry's text."""
    paths = [action["add"]["path"] for line in commit.splitlines() if "add" in (action := json.loads(line))]
    return [unquote(path).rpartition("/")[2] for path in paths]


def files_to_delete(commit: str, in_use: Collection[str]) -> list[str]:
    """Data files that a commit removed from the table, relative to the table's folder. `commit` is its log entry's
    text.

    No version from that commit on has them, except after RESTORE, which adds them again. `in_use` holds the names,
    without folder, of files to keep for that reason.
    """
    paths = [action["remove"]["path"] for line in commit.splitlines() if "remove" in (action := json.loads(line))]
    decoded = [unquote(path) for path in paths]
    return [path for path in decoded if _is_inside(path) and path.rpartition("/")[2] not in in_use]


def _is_inside(path: str) -> bool:
    """Whether a path in the log is below the table's folder; a clone's log names files of another table."""
    return not path.startswith("/") and "://" not in path and ".." not in path.split("/")
