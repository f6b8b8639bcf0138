"""Folders whose disk can be full.

Each has a small file system of its own in memory, where this machine lets us mount one (root, or `unshare -rm`): then a
write gets what a full disk gives, ENOSPC. Build servers often have no right to mount. There the processes that write to
the folder get a limit for the size of files (RLIMIT_FSIZE), which is the nearest that needs no right: their writes fail
with EFBIG.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from tests.exactly_once.processes import Found
from tests.waiting import wait_for

__all__ = ["NO_SPACE", "Disk"]

NO_SPACE: Final = r"No space left on device|File too large"
"""How an error says that a disk is full, in either way."""

_SIZE: Final = "1g"
_FULL_SECONDS: Final = 10.0


class Disk:
    """A folder, which is made; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounted = False
        """Whether it has a file system of its own."""

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self.mounted = _mount(self.folder, f"size={_SIZE}", "-t", "tmpfs", "tmpfs")
        return self

    def __exit__(self, *_: object) -> None:
        """The folder keeps what is in it."""
        if not self.mounted:
            return
        kept = self.folder.with_name(f"{self.folder.name}-kept")
        shutil.copytree(self.folder, kept)
        # Lazily: a process that has not quite ended may still have a file open.
        subprocess.run(["umount", "--lazy", self.folder], check=True)
        self.folder.rmdir()
        kept.rename(self.folder)

    @contextmanager
    def full(self, writers: Sequence[Found]) -> Iterator[None]:
        """For the length of the block nothing more can be written; `writers` are the processes that try."""
        with self._no_more_blocks() if self.mounted else _no_more_bytes(writers):
            yield

    @contextmanager
    def _no_more_blocks(self) -> Iterator[None]:
        # As small as what is there, which may grow meanwhile.
        wait_for(lambda: _mount(self.folder, f"remount,size={self._used()}"), "a full disk", seconds=_FULL_SECONDS)
        try:
            yield
        finally:
            assert _mount(self.folder, f"remount,size={_SIZE}")

    def _used(self) -> int:
        figures = os.statvfs(self.folder)
        return (figures.f_blocks - figures.f_bfree) * figures.f_frsize


@contextmanager
def _no_more_bytes(writers: Sequence[Found]) -> Iterator[None]:
    for process in writers:
        _limit(process.pid, full=True)
    try:
        yield
    finally:
        for process in writers:
            _limit(process.pid, full=False)


def _limit(pid: int, *, full: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))


def _mount(folder: Path, options: str, *what: str) -> bool:
    """Whether it could be mounted, or mounted otherwise."""
    command = ["mount", "-o", options, *what, str(folder)]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
