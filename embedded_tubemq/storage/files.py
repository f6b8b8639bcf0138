"""Small files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: every reader sees the old or the new content, also after a crash."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(data)
    os.replace(new, path)
