"""GitHub's workflows run what people run, with no more rights than that needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_packaging import ROOT, run_python
from tubeclient._version import __version__

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
RUNS_NO_CODE = {("release.yml", "publish"), ("release.yml", "attach"), ("site.yml", "deploy")}
"""The jobs with rights to write."""


def jobs() -> list[tuple[str, str, dict[str, Any]]]:
    found = [(path.name, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in WORKFLOWS]
    assert {text["permissions"]["contents"] for _, text in found} == {"read"}
    return [(file, name, job) for file, text in found for name, job in text["jobs"].items()]


@pytest.mark.parametrize(("file", "name", "job"), jobs(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_job(file: str, name: str, job: dict[str, Any]) -> None:
    """It ends, and runs targets of the Makefile; one that may write does not even have the project."""
    assert job["timeout-minutes"] <= 180
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert ("permissions" in job) == ((file, name) in RUNS_NO_CODE)
    if "permissions" in job:
        assert not any("checkout" in action for action in actions)
        return
    # The targets of a matrix are its values.
    choices = [one["target"] for one in job.get("strategy", {}).get("matrix", {}).get("include", [])]
    for words in [step["run"].split() for step in job["steps"] if "run" in step]:
        if words != [".ci/run"]:
            assert words[0] == "make"
            named = [word for word in words[1:] if "=" not in word and word not in ("${{", "matrix.target", "}}")]
            assert {*named, *choices} <= TARGETS


def test_each_action_is_named_by_its_commit() -> None:
    lines = [line for path in WORKFLOWS for line in re.findall(r"uses:(.*)", path.read_text(encoding="utf-8"))]
    assert lines
    assert [line for line in lines if not re.fullmatch(r" [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_release_has_one_version_everywhere(tmp_path: Path) -> None:
    """A commit is released only if its files and its tag all have the same version."""

    def tagged() -> list[str]:
        done = run_python(str(tmp_path / "tools" / "tagged.py"), cwd=tmp_path)
        assert done.returncode == (1 if done.stderr else 0)
        return done.stderr.splitlines()

    for name in ("tools/tagged.py", "tubeclient/_version.py", "tubeclient_core/Cargo.toml", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [{__version__}] - 2027-01-31\n", encoding="utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "one"], ["tag", f"v{__version__}"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    assert tagged() == []
    subprocess.run([*git, "tag", "v9.9.9"], check=True, timeout=60)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [{__version__}] - not released\n", encoding="utf-8")
    (tmp_path / "tubeclient" / "_version.py").write_text('__version__ = "9.9.8"\n', encoding="utf-8")
    core, changelog, tag = tagged()
    assert f"tubeclient_core/Cargo.toml says {__version__}, and tubeclient/_version.py 9.9.8" in core
    assert "CHANGELOG.md has no line '## [9.9.8] - ' with the day" in changelog
    assert f"the tag v9.9.8 belongs on this commit, which has: v{__version__}, v9.9.9" in tag
