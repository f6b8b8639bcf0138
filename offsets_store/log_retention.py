"""Which entries of a Delta table's log may go so that the log stays short; pure, no I/O.

A commit per batch makes ten thousand versions in some hours. Every look at the log lists its folder, on a local disk
all of it, so that a log that only time makes shorter would slow each commit down.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

__all__ = ["HISTORY_COMMITS", "Entry", "expendable", "files_to_delete"]

HISTORY_COMMITS: Final = 1_000
"""At least so many of the newest commits can be read by time travel, as far as they are younger than the retention."""

# Commits, checkpoints of any kind, checksums; for commits compacted into one the last one's version counts.
_ENTRY: Final = re.compile(
    r"(?:\d{20}\.)?(\d{20})\.(?:(checkpoint\.parquet)|(json)|checkpoint\..+|compacted\.json|crc)"
)


class Entry(NamedTuple):
    """A file of the log."""

    version: int
    name: str
    is_commit: bool


def expendable(names: Iterable[str], keep: int) -> list[Entry]:
    """The files of the log, by name, that no version needs but those older than the newest `keep`; oldest first.

    Versions from a checkpoint on can be read without what is before it: everything before the newest checkpoint that
    has `keep` commits after it may go. [] where there is no such checkpoint.
    """
    entries: list[Entry] = []
    checkpoints: list[int] = []
    newest = 0
    for name in names:
        found = _ENTRY.fullmatch(name)
        if found is None:
            continue
        version, is_commit = int(found[1]), found[3] is not None and "." not in name.removesuffix(".json")
        entries.append(Entry(version, name, is_commit))
        if found[2] is not None:
            checkpoints.append(version)
        if is_commit:
            newest = max(newest, version)
    floor = max((version for version in checkpoints if version <= newest - keep), default=0)
    return sorted(entry for entry in entries if entry.version < floor)


def files_to_delete(commit: str, in_use: Collection[str]) -> list[str]:
    """Data files that the commit with this text took out of the table, relative to the table's folder.

    No version from that commit on has them. `in_use` are the names, without folder, of files that stay all the same:
    RESTORE may have brought one back.
    """
    paths = [action["remove"]["path"] for line in commit.splitlines() if "remove" in (action := json.loads(line))]
    decoded = [unquote(path) for path in paths]
    return [path for path in decoded if _is_inside(path) and path.rpartition("/")[2] not in in_use]


def _is_inside(path: str) -> bool:
    """Whether a path of the log is one below the table's folder; a clone's log names files of another table."""
    return not path.startswith("/") and "://" not in path and ".." not in path.split("/")
