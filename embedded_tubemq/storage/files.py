"""Small files that are replaced as a whole, and writes to those that grow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tubeclient.errors import ConfigurationError

__all__ = ["usable", "write_atomically", "write_fully"]


@contextlib.contextmanager
def usable(path: Path) -> Iterator[None]:
    """Reading `path`, a file of ours: ConfigurationError if its content is another."""
    try:
        yield
    except (ValueError, TypeError, LookupError, RecursionError, ConfigurationError) as error:
        raise ConfigurationError(f"{path} is damaged, or of another program: {error}") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: every reader sees the old or the new content, also after a crash."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(data)
    os.replace(new, path)


def write_fully(fd: int, data: bytes) -> None:
    """Write all of `data`: a file system that is nearly full takes a part of it first. OSError if there is no room."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
