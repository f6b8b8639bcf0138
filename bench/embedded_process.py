"""`embedded_tubemq` in a process of its own, so that it does not share the interpreter of what is measured."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from embedded_tubemq import TopicConfig
from tubeclient import ClientSettings

__all__ = ["embedded_tubemq"]

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0


@contextmanager
def embedded_tubemq(topics: Sequence[TopicConfig], brokers: int = 1) -> Iterator[ClientSettings]:
    """Start so many brokers with these topics on loopback, and return how to reach them. RuntimeError: they do not
    start."""
    with tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "tubeclient_cli.app", "server", "--log-level", "warning"]
        command += ["--data-dir", str(Path(folder) / "data"), "--ready-file", str(ready), "--brokers", str(brokers)]
        for topic in topics:
            command += ["--topic", f"{topic.name}:{topic.stores}:{topic.partitions}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not ready.exists():
                if process.poll() is not None or time.monotonic() >= deadline:
                    raise RuntimeError(f"embedded_tubemq did not start, exit code {process.poll()}")
                time.sleep(0.05)
            addresses = json.loads(ready.read_text())
            yield ClientSettings((addresses["master"],), master_web_port=addresses["masterWebPort"])
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
