"""Keeps the log of a table on a local disk short, where each look at it lists the whole folder."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from offsets_store.log_retention import HISTORY_COMMITS, expendable, files_to_delete

__all__ = ["LOG", "entry_path", "shorten"]

LOG: Final = "_delta_log"

# What one call deletes of a log at most: where none ran for long, the next ones do the rest.
_MOST_ENTRIES: Final = 2_000


def entry_path(folder: Path, version: int) -> Path:
    """The file of the commit that made this version of the table in `folder`."""
    return folder / LOG / f"{version:020}.json"


def shorten(folder: Path, in_use: Collection[str]) -> int:
    """Delete what only versions beyond the kept history need; returns how many data files went.

    `in_use` are the names, without folder, of the newest version's files. Raises OSError.
    """
    gone = 0
    names = [path.name for path in (folder / LOG).iterdir()]
    for entry in expendable(names, HISTORY_COMMITS)[:_MOST_ENTRIES]:
        path = folder / LOG / entry.name
        # Another writer's upkeep may be at it as well: whatever is missing was deleted by that.
        with contextlib.suppress(FileNotFoundError):
            # Data first: the entry is what names them.
            if entry.is_commit:
                for file in files_to_delete(path.read_text(encoding="utf-8"), in_use):
                    with contextlib.suppress(FileNotFoundError):
                        (folder / file).unlink()
                        gone += 1
            path.unlink()
    return gone
