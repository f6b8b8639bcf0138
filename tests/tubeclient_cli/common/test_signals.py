"""A command that is told to end does so, whoever reads its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

_PRINTING = r"""
import sys, threading
from tubeclient_cli.common.signals import stop_on_signals

stop = threading.Event()
stop_on_signals(stop)
sys.stdout.write("begun\n"); sys.stdout.flush()
for _ in range(1_000):
    sys.stdout.write("x" * 100 + "\n"); sys.stdout.flush()
stop.wait()
print("stopped", file=sys.stderr)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_a_second_one_at_once(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PRINTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as printing:
        assert printing.stdout is not None
        assert os.read(printing.stdout.fileno(), 6) == b"begun\n"
        printing.send_signal(number)
        rest, errors = printing.communicate(timeout=60)
    assert (printing.returncode, rest.count(b"\n"), errors) == (0, 1_000, b"stopped\n")
    # Its output is full, and nobody takes it.
    with subprocess.Popen([sys.executable, "-c", _PRINTING], stdout=subprocess.PIPE) as printing:
        assert printing.stdout is not None
        assert os.read(printing.stdout.fileno(), 6) == b"begun\n"
        printing.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            printing.wait(1)
        printing.send_signal(number)
        assert printing.wait(30) == -number
