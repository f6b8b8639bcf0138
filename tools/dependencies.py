"""What packages need others, by what the installed ones say; and the lock file of the development set.

`python -m tools.dependencies` makes the lock file anew. It needs the registry.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["LOCK", "locked", "needed_by"]

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements-dev.lock"
_SECONDS: Final = 600.0
_HEAD: Final = (
    "# What `pip install '.[all]'` brings, each with one version and its hashes. From setup.py, by: make lock\n"
)
_LINUX: Final = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"}
_PYTHON: Final = {"python_version": "3.11", "python_full_version": "3.11.0", "implementation_name": "cpython"}


def needed_by(requirements: Iterable[str]) -> set[str]:
    """The names of all packages that pip would bring for these requirements, by what the installed ones say."""
    found: set[str] = set()
    done: set[tuple[str, str]] = set()
    left = [(Requirement(text), "") for text in requirements]
    while left:
        requirement, extra = left.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found.add(name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in done:
                done.add((name, wanted))
                left += [(Requirement(text), wanted) for text in importlib.metadata.requires(name) or []]
    return found


def locked() -> dict[str, str]:
    """The packages of the lock file to their versions: those for Python 3.11 on Linux, on whatever this runs."""
    found: dict[str, str] = {}
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if line[:1].isalnum():
            requirement = Requirement(line.removesuffix("\\"))
            if requirement.marker is None or requirement.marker.evaluate({**_LINUX, **_PYTHON, "extra": ""}):
                [version] = requirement.specifier
                found[canonicalize_name(requirement.name)] = version.version
    return found


def main() -> int:
    command = ["pip", "compile", "setup.py", "--extra", "all", "--universal", "--python-version", "3.11"]
    # Without the registry's address, and without what a person's settings say of one.
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "uv", *command],
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_SECONDS,
    )
    if done.returncode == 0:
        LOCK.write_text(_HEAD + done.stdout, encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
