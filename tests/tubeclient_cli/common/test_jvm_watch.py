"""A command ends after its JVM, even if a call into it never does."""

from __future__ import annotations

import subprocess
import sys

import pytest

HANGS = """
import signal, sys, time
from pyspark import SparkContext
from tubeclient_cli.common import jvm_watch
from tubeclient_cli.common.session import make_session
jvm_watch._LOOK_SECONDS, jvm_watch._END_SECONDS = 0.05, 0.5
spark = make_session("hangs", "local[1]", {"spark.ui.enabled": "false"})
print("up", flush=True)
SparkContext._gateway.proc.send_signal(signal.SIGKILL)
time.sleep(90)  # a call that never ends
"""

# Stands for spark-submit's JVM: a process of that name, which dies, and whose child is the command.
SUBMITTED = """
import os, subprocess, sys
code = '''
import sys, time
from tubeclient_cli.common import jvm_watch
jvm_watch._LOOK_SECONDS, jvm_watch._END_SECONDS = 0.05, 0.5
jvm_watch.end_after_jvm()
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
def test_a_command_does_not_wait_for_a_jvm_that_was_killed() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=80, check=False)
    assert (done.returncode, done.stdout) == (1, "up\n"), done.stderr
    assert "Spark's JVM has died, and a call into it never ended. Start the command again." in done.stderr


@pytest.mark.parametrize(
    ("parent", "seconds", "told"),
    [
        ("java", "90", "Spark's JVM has died, and a call into it never ended. Start the command again.\n"),
        pytest.param("sh", "2", "ended by itself\n", id="a launcher that is no JVM may end"),
    ],
)
def test_under_spark_submit_it_ends_after_its_parent(parent: str, seconds: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SUBMITTED, parent, seconds], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == told
