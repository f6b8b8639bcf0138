"""GitHub's workflows run what people run, with no more rights than that needs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.test_packaging import ROOT

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
