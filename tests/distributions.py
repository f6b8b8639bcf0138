"""The wheel and the source archive, built as a release is, and empty virtual environments that pip fills without a
network.

Packages that this Python has are linked into an environment, and pip finds them installed there. So an installation
takes seconds, and one that needs anything else fails.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

__all__ = ["ROOT", "Distributions", "EmptyEnvironment", "build_distributions", "link_packages"]

ROOT = Path(__file__).resolve().parents[1]
_SECONDS = 240.0


class Distributions(NamedTuple):
    """What a release uploads."""

    sdist: Path
    wheel: Path
    source: Path
    """The files that they were built from."""


def build_distributions(folder: Path) -> Distributions:
    """Build both in `folder`: the archive from a copy of the repository, and the wheel from that archive. Without a
    network."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(".git", *ignored))
    # build makes the wheel from the unpacked archive, so what that lacks is missed here.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(folder / "source")]
    built = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Distributions(sdist, wheel, folder / "source")


class EmptyEnvironment:
    """A virtual environment with nothing in it, not even pip."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        [self._packages] = folder.glob("lib/python3*/site-packages")

    def link(self, names: Set[str]) -> None:
        """Link these packages, as they are installed here."""
        link_packages(self._packages, names)

    def install(self, *requirements: str) -> subprocess.CompletedProcess[str]:
        """Let pip install; it may not look anywhere else, so it neither downloads nor replaces a linked package."""
        pip = ["-m", "pip", "--isolated", "--python", str(self.python), "install", "--quiet", "--no-index"]
        return _run([sys.executable, *pip, "--no-compile", *requirements], dict(os.environ))

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command of this environment, as after its activation."""
        left_out = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "PYTEST_ADDOPTS")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        path = f"{self.bin}{os.pathsep}{environment['PATH']}"
        return _run([str(self.bin / command[0]), *command[1:]], {**environment, "PATH": path}, cwd)

    def installed(self) -> set[str]:
        """The names of all packages that it has."""
        found = importlib.metadata.distributions(path=[str(self._packages)])
        return {canonicalize_name(one.metadata["Name"]) for one in found}


def link_packages(folder: Path, names: Set[str]) -> None:
    """Link these packages, as they are installed here, into a folder."""
    for name in names:
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            # A command lies outside, and a single module has its byte code in a folder of all.
            if top not in ("..", "__pycache__") and not (folder / top).exists():
                root = Path(str(file.locate())).parents[len(file.parts) - 1]
                (folder / top).symlink_to(root / top)


def _run(command: list[str], environment: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
