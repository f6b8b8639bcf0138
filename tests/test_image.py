"""The image of conf/docker without Docker: what its Dockerfile copies is there, and its two services start commands."""

from __future__ import annotations

import io
import shlex
import tarfile
from fnmatch import fnmatch
from typing import Any

import pytest
import typer
import yaml
from dockerfile_parse import DockerfileParser

from tests.distributions import ROOT, Distributions
from tests.test_packaging import PACKAGES
from tubeclient_cli.app import app

pytestmark = pytest.mark.nightly

FOLDER = ROOT / "conf" / "docker"


def instructions(name: str) -> list[str]:
    """What all instructions of that name have in the Dockerfile, in order."""
    parser = DockerfileParser(fileobj=io.BytesIO((FOLDER / "Dockerfile").read_bytes()))
    return [one["value"] for one in parser.structure if one["instruction"] == name]


def test_copied_files_are_shipped(distributions: Distributions) -> None:
    """The source archive has all files that the image copies, and Docker ignores none."""
    with tarfile.open(distributions.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    rules = [line for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line and line[0] != "#"]
    shown = [rule[1:] for rule in rules if rule.startswith("!")]
    paths = [path for value in instructions("COPY") if not value.startswith("--from") for path in value.split()[:-1]]
    assert set(PACKAGES) <= set(paths)
    for path in paths:
        assert path in held
        assert any(fnmatch(path, f"{rule}*") for rule in shown), f"Dockerfile.dockerignore hides {path}"


def test_the_image_runs_as_a_user_without_rights() -> None:
    assert instructions("USER") == ["185"]
    assert any("useradd" in value and "--uid 185 " in value for value in instructions("RUN"))


@pytest.mark.parametrize("name", ["tubemq", "ingest"])
def test_compose_services_run_real_commands(name: str) -> None:
    """Each service of the compose file runs a command that exists."""
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    assert (FOLDER / compose["x-image"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / compose["x-image"]["build"]["dockerfile"]).is_file()
    words = shlex.split(compose["services"][name]["command"])
    assert words[0] == "tubeclient"
    command: Any = typer.main.get_command(app)
    assert command.commands[words[1]].make_context(words[1], words[2:]).args == []
