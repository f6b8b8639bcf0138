"""The wheel and the source archive, built as a release is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["ROOT", "Distributions", "build_distributions", "copy_repository"]

ROOT = Path(__file__).resolve().parents[1]
_SECONDS = 240.0


class Distributions(NamedTuple):
    """What a release uploads."""

    sdist: Path
    wheel: Path
    source: Path
    """The files that they were built from."""


def copy_repository(target: Path) -> None:
    """The repository as a fresh clone has it: without git's folder, and without what git ignores."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(".git", *ignored))


def build_distributions(folder: Path) -> Distributions:
    """Build both in `folder`: the archive from a copy of the repository, and the wheel from that archive. Without a
    network."""
    copy_repository(folder / "source")
    # build makes the wheel from the unpacked archive, so what that lacks is missed here.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(folder / "source")]
    built = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Distributions(sdist, wheel, folder / "source")
