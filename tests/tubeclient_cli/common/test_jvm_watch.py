"""A command ends after its JVM, even if a call into it never does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exactly_once.processes import MARK, marked
from tests.waiting import wait_for

pytestmark = pytest.mark.merge

HANGS = """
import signal, sys, time
from pyspark import SparkContext
from tubeclient_cli.common import session
session._POLL_SECONDS, session._END_SECONDS = 0.05, 0.5
spark = session.make_session("hangs", "local[1]", {"spark.ui.enabled": "false"})
print("up", flush=True)
SparkContext._gateway.proc.send_signal(signal.SIGKILL)
time.sleep(90)  # a call that never ends
"""

# Stands for spark-submit's JVM: a process of that name, which dies, and whose child is the command.
SUBMITTED = """
import os, subprocess, sys
code = '''
import sys, threading, time
from tubeclient_cli.common import session
session._POLL_SECONDS, session._END_SECONDS = 0.05, 0.5
session.end_after_jvm()
session.end_after_jvm()
assert threading.active_count() <= 2
print("up", flush=True)
time.sleep(float(sys.argv[1]))
print("ended by itself", file=sys.stderr)
'''
open("/proc/self/comm", "w").write(sys.argv[1])
os.environ["PYSPARK_GATEWAY_PORT"] = "1"
command = subprocess.Popen([sys.executable, "-c", code, sys.argv[2]], stdout=subprocess.PIPE, text=True)
assert command.stdout.readline() == "up\\n"
os._exit(0)
"""


@pytest.mark.spark
def test_command_ends_after_a_killed_jvm() -> None:
    """A command ends with an error instead of waiting for a JVM that was killed."""
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (1, "up\n"), done.stderr
    assert "Spark's JVM died during a call. Start the command again." in done.stderr


@pytest.mark.parametrize(
    ("parent", "seconds", "told"),
    [
        ("java", "90", "Spark's JVM died during a call. Start the command again.\n"),
        pytest.param("sh", "2", "ended by itself\n", id="a launcher that is no JVM may end"),
    ],
)
def test_under_spark_submit_it_ends_after_its_parent(parent: str, seconds: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SUBMITTED, parent, seconds], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == told


@pytest.mark.parametrize("stderr", ["full", "nobody reads", "nobody is there"])
def test_a_command_ends_even_if_it_cannot_say_why(stderr: str, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    if stderr == "full":
        os.close(writing)
        writing = os.open("/dev/full", os.O_WRONLY)
    elif stderr == "nobody reads":
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, bytes(4096))
        os.set_blocking(writing, True)
    else:
        os.close(reading)
    command = [sys.executable, "-c", SUBMITTED, "java", "90"]
    with (tmp_path / "out").open("w+b") as output:
        environment = {**os.environ, MARK: str(tmp_path)}
        subprocess.run(command, stdout=output, stderr=writing, env=environment, timeout=60, check=False)
    os.close(writing)
    wait_for(lambda: not marked(str(tmp_path)), "the command's end", seconds=20)
    if stderr != "nobody is there":
        os.close(reading)
