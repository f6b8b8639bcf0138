"""The sizes of files in a folder that others write to at the same time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["sizes_below"]


def sizes_below(folder: Path) -> Iterator[int]:
    """The size of each file below `folder`, in bytes. What is removed meanwhile is left out."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                yield Path(parent, name).stat().st_size
