"""The planner's process does not outlive its driver, which may be killed while it waits for a slow call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_source.stream.planner_process import PLANNER_MODULE
from tests.exactly_once.processes import MARK, marked
from tests.waiting import wait_for

PLANNER = f"""
import os, pathlib, sys, time, types
from spark_source.stream import planner_process
sys.modules["__main__"].__spec__ = types.SimpleNamespace(name={PLANNER_MODULE!r})
planner_process._POLL_SECONDS, planner_process._END_SECONDS = 0.02, float(sys.argv[2])
assert planner_process.set_up_planner_process()
told = pathlib.Path(sys.argv[1])
(told / "planner").write_text(str(os.getpid()))
try:
    time.sleep(60)  # a call that the driver made
finally:
    (told / "releasing").touch()
    time.sleep(float(sys.argv[3]))
    (told / "released").touch()
"""

# Stands for Spark's JVM: a process of a name.
DRIVER = """
import subprocess, sys
open("/proc/self/comm", "w").write(sys.argv[1])
subprocess.run([sys.executable, "-c", *sys.argv[2:]])
"""


@pytest.mark.parametrize(
    ("end_seconds", "release_seconds", "released"),
    [
        pytest.param(30.0, 0.1, True, id="in its own time"),
        pytest.param(0.5, 60.0, False, id="that hangs"),
    ],
)
def test_a_planner_in_a_call_ends_after_its_driver(
    tmp_path: Path, end_seconds: float, release_seconds: float, released: bool
) -> None:
    arguments = [PLANNER, str(tmp_path), str(end_seconds), str(release_seconds)]
    left_by("java", arguments)
    wait_for(lambda: not marked(str(tmp_path)), "the planner's end", seconds=20)
    assert (tmp_path / "releasing").exists()
    assert (tmp_path / "released").exists() == released


def test_a_launcher_that_is_no_jvm_may_end(tmp_path: Path) -> None:
    planner = left_by("launcher", [PLANNER, str(tmp_path), "0.5", "0"])
    try:
        time.sleep(2)  # a hundred looks
        assert [process.pid for process in marked(str(tmp_path))] == [planner]
        assert not (tmp_path / "releasing").exists()
    finally:
        os.kill(planner, signal.SIGKILL)


def left_by(name: str, arguments: list[str]) -> int:
    """The process id of a planner that is in a call, and whose parent of this name was killed."""
    told = Path(arguments[1]) / "planner"
    environment = {**os.environ, MARK: arguments[1]}
    with subprocess.Popen([sys.executable, "-c", DRIVER, name, *arguments], env=environment) as driver:
        try:
            wait_for(lambda: told.exists() and told.read_text(), "the planner")
        finally:
            driver.send_signal(signal.SIGKILL)
    return int(told.read_text())


def test_release_is_not_interrupted() -> None:
    """Spark sends SIGTERM to a planner that has met the end of its input just before."""
    code = f"""
import os, signal, sys, types
from spark_source.stream.planner_process import ignore_termination, set_up_planner_process
from spark_source.stream.stream_reader import TubeStreamReader
ignore_termination()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # no planner, so nothing of ours
sys.modules["__main__"].__spec__ = types.SimpleNamespace(name={PLANNER_MODULE!r})
assert set_up_planner_process()
def close():
    os.kill(os.getpid(), signal.SIGTERM)
    print("released")
reader = TubeStreamReader(None)
reader._planner = types.SimpleNamespace(close=close)
reader.stop()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "released\n"), done.stderr
