"""The five commands at the top of the README, as they are written there: the first thing that a user does."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apache.jvm import free_ports
from tests.distributions import ROOT, Distributions, link_packages
from tests.test_install import requirements

SECONDS = 240
README = (ROOT / "README.md").read_text(encoding="utf-8")
PORT, WEB_PORT = 8715, 8080


def commands() -> str:
    [found] = re.findall(r"<!-- quickstart -->\n```sh\n(.*?)```", README, re.DOTALL)
    return str(found)


def python_with(folder: Path, packages: Path) -> Path:
    """A folder with a python3 whose virtual environments have these packages already."""
    folder.mkdir()
    script = folder / "python3"
    lines = [
        "#!/bin/sh",
        f'{sys.executable} "$@" || exit',
        f"for site in venv/lib/python*/site-packages; do echo {packages} > $site/downloaded.pth; done",
    ]
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    return folder


def free_port(wanted: int) -> int:
    """This one, unless another process has it."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", wanted))
        except OSError:
            return free_ports(1)[0]
        return wanted


@pytest.mark.spark
def test_the_five_commands_of_the_readme(tmp_path: Path, distributions: Distributions) -> None:
    """In a fresh shell and an empty folder. Packages come from here, the project from its wheel."""
    text = commands()
    wheel = distributions.wheel
    packages = tmp_path / "packages"
    packages.mkdir()
    link_packages(packages, requirements(wheel, "quickstart"))
    text = text.replace("'.[quickstart]'", f"'{wheel}[quickstart]'").replace(str(PORT), str(free_port(PORT)))
    if (web_port := free_port(WEB_PORT)) != WEB_PORT:
        text = text.replace(str(WEB_PORT), str(web_port))
        text = text.replace('.option("masterServers"', f'.option("masterWebPort", {web_port}).option("masterServers"')
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {
        "PATH": f"{python_with(tmp_path / 'bin', packages)}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PIP_NO_INDEX": "1",
        **{name: value for name, value in os.environ.items() if name == "JAVA_HOME"},
    }
    done = subprocess.run(
        ["bash", "--norc", "-e", "-c", f"trap 'kill %1; wait' EXIT\n{text}"],
        cwd=empty,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The extra is there, and pip was content; Spark said nothing but the rows.
    assert done.stderr == ""
    rows = re.findall(r"^\|1:clicks:0 +\|(\d+) +\|(\{.*\}) *\|$", done.stdout, re.MULTILINE)
    assert [int(offset) for offset, _ in rows] == [0, 28, 56, 84, 112], done.stdout
    assert rows[1][1] == '{"id": 1, "user": "u7", "page": "basket"}'
    # One is the package that the test itself runs; the shell's is that of the wheel.
    assert (empty / "venv" / "bin" / "tubeclient").exists()
