"""A command that is told to end does so, whoever reads its output."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
from contextlib import ExitStack
from typing import IO

import pytest

from tests.waiting import wait_for

_PIPE_BYTES = 4_096

_PRINTING = """
import sys, threading
from tubeclient_cli.common.signals import stop_on_signals

stop = threading.Event()
stop_on_signals(stop)

def fill():
    for _ in range(1_000):
        print("x" * 100, file=sys.stdout if sys.argv[1] == "1" else sys.stderr, flush=True)

if sys.argv[2] == "beside":
    filling = threading.Thread(target=fill)
    filling.start()
    filling.join()
else:
    fill()
stop.wait()
print("stopped", file=sys.stderr)
"""


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("where", ["main", "beside"])
def test_output_that_nobody_takes_does_not_hold_up_the_end(number: int, where: str) -> None:
    with ExitStack() as files:
        reading, writing = (os.fdopen(one, mode) for one, mode in zip(os.pipe(), ("r", "w"), strict=True))
        files.enter_context(reading)
        files.enter_context(writing)
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        command = [sys.executable, "-c", _PRINTING, str(number), where]
        other = subprocess.DEVNULL
        outputs = (writing, other) if number == 1 else (other, writing)
        with subprocess.Popen(command, stdout=outputs[0], stderr=outputs[1]) as printing:
            try:
                wait_for(lambda: _unread(reading) > _PIPE_BYTES - 101, "a pipe without room for a line")
                printing.send_signal(signal.SIGTERM)
                assert printing.wait(30) == 0
            finally:
                printing.kill()


def test_output_that_is_taken_is_whole() -> None:
    command = [sys.executable, "-c", _PRINTING, "1", "main"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as printing:
        assert printing.stdout is not None
        first = os.read(printing.stdout.fileno(), 101)
        printing.send_signal(signal.SIGTERM)
        rest, errors = printing.communicate(timeout=60)
    assert (printing.returncode, (first + rest).count(b"\n"), errors) == (0, 1_000, b"stopped\n")


def _unread(pipe: IO[str]) -> int:
    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return size[0]
