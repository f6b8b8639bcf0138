"""Checks that this commit can be released: its tag, both packages and the changelog have one version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def wrongs() -> list[str]:
    """What must be mended before a release, one sentence each."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "tubeclient" / "_version.py").read_text(), re.MULTILINE)
    assert found is not None
    version = found[1]
    core = tomllib.loads((ROOT / "tubeclient_core" / "Cargo.toml").read_text())["package"]["version"]
    command = ["git", "tag", "--points-at", "HEAD", "--list", "v*"]
    tags = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.split()
    wrong = []
    if core != version:
        wrong.append(f"tubeclient_core/Cargo.toml says {core}, and tubeclient/_version.py {version}")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M):
        wrong.append(f"CHANGELOG.md has no line '## [{version}] - ' with the day of the release")
    if tags != [f"v{version}"]:
        wrong.append(f"the tag v{version} belongs on this commit, which has: {', '.join(tags) or 'none'}")
    return wrong


if __name__ == "__main__":
    found = wrongs()
    for wrong in found:
        print(f"not to be released: {wrong}", file=sys.stderr)
    sys.exit(bool(found))
