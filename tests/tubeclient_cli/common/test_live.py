"""The line that a terminal shows of work that lasts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tubeclient_cli.common.live import live_line

SCRIPT = """
import time
from tubeclient_cli.common.live import live_line

with live_line(lambda: "2 of [5] steps"):
    time.sleep(0.3)
print("done")
"""


def test_a_terminal_shows_it_and_it_is_gone_at_the_end() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        environment = {**os.environ, "TERM": "xterm"}
        try:
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=theirs, env=environment, timeout=60
            )
            os.set_blocking(ours, False)
            shown = terminal.read().decode()
        finally:
            os.close(theirs)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert "2 of [5] steps" in shown
    assert "\x1b[2K" in shown.rpartition("steps")[2], "the line is wiped"


def test_elsewhere_there_is_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with live_line(lambda: pytest.fail("nobody sees it")):
        pass
    assert capfd.readouterr() == ("", "")
