"""A Spark standalone cluster on loopback: one master and some worker processes, from pip's pyspark."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.apache.jvm import accepts, free_ports
from tests.exactly_once.processes import Child, Found, marked
from tests.spark_home import JAVA_OPTIONS, SPARK_HOME
from tests.waiting import wait_for

__all__ = ["SparkCluster"]

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class SparkCluster:
    """A master and workers with two cores each; a context manager that fails, never skips, where they cannot run.
    `more` is for their environment, as for a Child.
    """

    def __init__(
        self,
        folder: Path,
        mark: str,
        workers: int = 2,
        more: Mapping[str, str | None] | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._mark = mark
        self._count = workers
        self._more = dict(more or {})
        self._children: list[Child] = []
        self._port, self._web_port = free_ports(2)

    @property
    def url(self) -> str:
        """What drivers connect to."""
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._start(
                "Master", ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._web_port)]
            )
            self._await(lambda: accepts("127.0.0.1", self._port), "Spark's master")
            for number in range(self._count):
                # A host each: Spark gives no task to the same host a second time while the first attempt runs. Room for
                # two drivers, each with an executor there: one that stands still gives nothing back.
                size = ["--host", f"127.0.0.{number + 1}", "--webui-port", "0", "--cores", "2", "--memory", "1g"]
                self._start("Worker", [*size, "--work-dir", str(self._folder / f"work-{number}"), self.url])
            self._await(lambda: self._alive_workers() == self._count, "Spark's workers")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            error.add_note(self.tail())
        self.stop()

    def stop(self) -> None:
        """End workers, with their executors, and master."""
        for child in reversed(self._children):
            child.ask_to_end()
        for child in reversed(self._children):
            try:
                child.wait(_STOP_SECONDS)
            finally:
                child.kill()

    def executors(self) -> list[Found]:
        """The executors' JVMs."""
        return [process for process in marked(self._mark) if "CoarseGrainedExecutorBackend" in process.command]

    def python_workers(self) -> list[Found]:
        """The Python processes that run the executors' tasks; not the daemons that they are forked from."""
        daemons = {process.pid for process in self._python() if process.parent in {e.pid for e in self.executors()}}
        return [process for process in self._python() if process.parent in daemons]

    def tail(self) -> str:
        """The last log lines of master, workers and executors."""
        logs = sorted(self._folder.glob("work-*/*/*/stderr"), key=lambda path: path.stat().st_mtime)[-4:]
        texts = [f"--- {path}:\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:]) for path in logs]
        return "\n".join([child.tail(15) for child in self._children] + texts)

    def _python(self) -> list[Found]:
        return [process for process in marked(self._mark) if "pyspark.daemon" in process.command]

    def _start(self, kind: str, arguments: list[str]) -> None:
        name = f"{kind.lower()}-{len(self._children)}"
        command = [
            str(SPARK_HOME / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind.lower()}.{kind}",
            *arguments,
        ]
        daemon = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS}
        more = {**self._more, **daemon}
        self._children.append(Child(name, command, self._folder / f"{name}.log", self._mark, more))

    def _await(self, ready: Callable[[], bool], what: str) -> None:
        def done() -> bool:
            dead = [child.tail() for child in self._children if not child.running]
            assert not dead, f"{what} ended at once:\n" + "\n".join(dead)
            return ready()

        wait_for(done, what, seconds=_START_SECONDS)

    def _alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web_port}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):
            # The page comes some time after the port for workers, and its contents after the page.
            return 0
