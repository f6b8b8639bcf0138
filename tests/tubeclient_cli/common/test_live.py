"""The line that a terminal shows of work that lasts."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tubeclient_cli.common.live import live_line

SCRIPT = """
import threading
from tubeclient_cli.common.live import live_line

drawn = threading.Event()

def text():
    drawn.set()
    return "2 of 5 steps"

with live_line(text):
    assert drawn.wait(30)
print("done")
"""


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_shows_it_and_it_is_gone_at_the_end(no_color: str) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": no_color}
        try:
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=theirs, env=environment, timeout=60
            )
            os.set_blocking(ours, False)
            shown = terminal.read().decode()
        finally:
            os.close(theirs)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert re.search(r"2 of 5 steps, \d+ s", shown)
    assert "\x1b[2K" in shown.rpartition("steps")[2], "the line is wiped"
    assert not re.search(r"\x1b\[[\d;]*m", shown), "it has no colours"


def test_elsewhere_there_is_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with live_line(lambda: pytest.fail("nobody sees it")):
        pass
    assert capfd.readouterr() == ("", "")
