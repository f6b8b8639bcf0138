"""Keeps the log of a table on a local disk short: each read there lists the whole folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from offsets_store.log_retention import HISTORY_COMMITS, commits_of, expendable, files_added, files_to_delete

__all__ = ["LOG", "entry_path", "in_turn", "shorten"]

LOG: Final = "_delta_log"

# One call deletes at most so many entries; the next calls delete the rest.
_MOST_ENTRIES: Final = 2_000

_LONGEST_TURN_S: Final = 20.0
_LONGEST_PAUSE_S: Final = 0.2


def entry_path(folder: Path, version: int) -> Path:
    """The file of the commit that made this version of the table in `folder`."""
    return folder / LOG / f"{version:020}.json"


@contextlib.contextmanager
def in_turn(folder: Path | None) -> Iterator[None]:
    """Let this machine's writers of the table in `folder` commit one after the other; None, which is no local disk,
    lets all of them. Delta's log decides what counts: this only spares them tries. So a lock that is not to be had, as
    of a process that stands still, is waited for 20 s at most."""
    if folder is None:
        yield
        return
    lock = os.open(folder / LOG, os.O_RDONLY)
    until, pause_s = time.monotonic() + _LONGEST_TURN_S, 0.01
    try:
        while time.monotonic() < until:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(random.uniform(0, pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing alone would leave it to a forked child
        os.close(lock)


def shorten(folder: Path, in_use: Collection[str]) -> int:
    """Delete what only versions beyond the kept history need; returns the number of data files deleted.

    `in_use` holds the names, without folder, of the newest version's files. Raises OSError.
    """
    gone = 0
    names = [path.name for path in (folder / LOG).iterdir()]
    old = expendable(names, HISTORY_COMMITS)[:_MOST_ENTRIES]
    # RESTORE adds old files again. What a later commit added is its remove action's to delete.
    added = (
        {} if not old else {file: int(name[:20]) for name in commits_of(names) for file in _added(folder / LOG / name)}
    )
    for entry in old:
        path = folder / LOG / entry.name
        # Another writer's upkeep may run at the same time and delete files first.
        with contextlib.suppress(FileNotFoundError):
            # Data before the log entry: only the entry names the data files.
            if entry.is_commit:
                for file in files_to_delete(path.read_text(encoding="utf-8"), in_use):
                    if added.get(file.rpartition("/")[2], -1) >= entry.version:
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        (folder / file).unlink()
                        gone += 1
            path.unlink()
    return gone


def _added(entry: Path) -> list[str]:
    try:
        return files_added(entry.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
