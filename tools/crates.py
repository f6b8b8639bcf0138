"""The crates that are linked into the core, and the texts of their licences.

`python -m tools.crates` writes tubeclient_core/CRATES.txt, which the core's wheel holds. Needs cargo.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["CORE", "Crate", "linked_crates"]

CORE: Final = Path(__file__).resolve().parents[1] / "tubeclient_core"
_PLATFORMS: Final = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
_TEXTS: Final = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE")
_SECONDS: Final = 300.0


class Crate(NamedTuple):
    """A crate of Cargo.lock; `licence` is an SPDX expression."""

    name: str
    version: str
    licence: str
    folder: Path

    def texts(self) -> list[str]:
        """What its files say of its licences and authors."""
        found = [path for path in self.folder.iterdir() if path.name.upper().startswith(_TEXTS) and path.is_file()]
        return [path.read_text(encoding="utf-8").strip() for path in sorted(found)]


def linked_crates() -> list[Crate]:
    """Those in the core's library, by name. What runs only while it is built is left out."""
    tree = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--format", "{p}"]
    # "name v1.2.3", and for the core itself its folder.
    lines = _cargo("tree", *tree, *(word for platform in _PLATFORMS for word in ("--target", platform))).splitlines()
    linked = {line for line in lines if line and "(" not in line}
    packages = json.loads(_cargo("metadata", "--format-version", "1"))["packages"]
    crates = [
        Crate(
            package["name"], package["version"], package["license"] or "not said", Path(package["manifest_path"]).parent
        )
        for package in packages
        if f"{package['name']} v{package['version']}" in linked
    ]
    return sorted(crates)


def _cargo(*words: str) -> str:
    command = ["cargo", words[0], "--locked", "--quiet", *words[1:]]
    return subprocess.run(
        command, cwd=CORE, check=True, stdout=subprocess.PIPE, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
    ).stdout


def _all_texts() -> str:
    """Each text once, below the crates that have it."""
    of_text: dict[str, list[str]] = {}
    for crate in linked_crates():
        for text in crate.texts() or ["(no file in the crate)"]:
            of_text.setdefault(text, []).append(f"{crate.name} {crate.version} ({crate.licence})")
    return "".join(f"{'=' * 80}\n{', '.join(names)}\n\n{text}\n\n" for text, names in of_text.items())


if __name__ == "__main__":
    (CORE / "CRATES.txt").write_text(_all_texts(), encoding="utf-8")
