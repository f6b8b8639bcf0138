"""A driver in another process, perhaps with another Spark."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.apache.jvm import tail
from tests.spark_home import JAVA_OPTIONS, SPARK_HOME
from tests.spark_source.feed import Feed
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(sys.executable)
"""The Python, and so the Spark, of the tests themselves."""
SCRIPT = Path(__file__).with_name("driver_script.py")

SMALL = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}
"""A Spark that starts quickly, and that nobody but this machine reaches."""

CALL_SECONDS = 120.0

LOG_LINES = 60
"""How much of a log stands in an error."""


def environment(python: Path) -> dict[str, str]:
    """For a Spark that is started with `python`, and whose workers are to be the same."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    home = {"SPARK_HOME": str(SPARK_HOME)} if python == HERE else {}
    return {
        **others,
        **home,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def texts(bodies: Iterable[bytes]) -> list[str]:
    """As the driver answers them."""
    return sorted(body.decode() for body in bodies)


def places(folder: Path) -> dict[str, str]:
    """Where a query keeps its checkpoint, and its rows."""
    return {"checkpoint": str(folder / "checkpoint"), "rows": str(folder / "rows")}


def sink(feed: Feed) -> dict[str, str]:
    """Options of a write to the feed's topic."""
    return {"masterServers": feed.tube.master_address, "topic": feed.topic}


class CallFailed(Exception):
    """What the driver's call raised, as text."""


class OtherDriver:
    """`driver_script.py` in a process of its own, run by `python`; ended with the context."""

    def __init__(self, python: Path, folder: Path, confs: dict[str, str]) -> None:
        self._log = folder / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), str(SCRIPT), json.dumps(confs)],
                cwd=folder,
                env=environment(python),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def __enter__(self) -> OtherDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return what `Driver.name` of the script answers; CallFailed with what it raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline() if selector.select(CALL_SECONDS) else b""
        assert line, (
            f"{name}: the driver did not answer within {CALL_SECONDS:g} s, or ended\n{tail(self._log, LOG_LINES)}"
        )
        good, answer = json.loads(line)
        if not good:
            raise CallFailed(answer)
        return answer

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(10)

    def run_available(self, name: str, **arguments: Any) -> list[tuple[int, int]]:
        """Run a query with Trigger.AvailableNow to its end; returns number and rows of its batches."""
        self.call("start", name=name, trigger={"availableNow": True}, **arguments)
        try:
            assert self.call("wait", name=name, seconds=CALL_SECONDS / 2), "the query did not end"
            return [(number, rows) for number, rows in self.call("batches", name=name)]
        finally:
            self.call("stop", name=name)

    def wait_for_rows(self, rows: Path, feeds: Iterable[Feed]) -> None:
        """Until a query that runs has written all that was sent, each message once."""
        wanted = texts(body for feed in feeds for body in feed.sent)
        wait_for(lambda: rows.exists() and self._rows(rows) == wanted, f"{len(wanted)} rows", seconds=60)

    def _rows(self, rows: Path) -> list[str]:
        try:
            found: list[str] = self.call("rows", rows=str(rows))
        except CallFailed:  # no batch yet
            return []
        return found

    def _end(self) -> None:
        """The script ends, and Spark with it, when its input does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process.stdout.close()
