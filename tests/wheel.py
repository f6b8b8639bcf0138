"""The package as users install it, built from a copy of the sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["PACKAGES", "ROOT", "build_wheel", "run_python"]

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tubeclient", "embedded_tubemq", "spark_source", "offsets_store", "pyspark_tubeclient", "tubeclient_cli")
# As a build from a fresh clone sees them: what git ignores is not there.
BUILD_INPUTS = (
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "NOTICE",
    "jobs",
    "conf",
    "tests",
    "bench",
    "tools",
)


def run_python(*arguments: str, cwd: Path = ROOT, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments and return what it said; never raises for its exit status."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def build_wheel(folder: Path) -> Path:
    """Build the wheel in `folder`, so that nothing is left behind in the repository; returns its path."""
    source = folder / "source"
    source.mkdir()
    for name in (*PACKAGES, *BUILD_INPUTS):
        if (ROOT / name).exists():
            copy = run_python("-c", COPY_SCRIPT, str(ROOT / name), str(source / name))
            assert copy.returncode == 0, copy.stderr
    command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    built = run_python(*command, str(source), cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = folder.glob("*.whl")
    return path


COPY_SCRIPT = """
import shutil, sys
from pathlib import Path
source, target = map(Path, sys.argv[1:])
if source.is_dir():
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
else:
    shutil.copyfile(source, target)
"""
