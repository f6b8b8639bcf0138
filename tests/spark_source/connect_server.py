"""A Spark Connect server in its own process, on loopback."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from spark_source.session import session_builder
from tests.apache.jvm import tail
from tests.spark_home import SPARK_HOME, delta_confs
from tests.spark_source.other_driver import HERE, LOG_LINES, SMALL, environment
from tests.waiting import wait_for

_START_SECONDS = 120.0
_STARTED = re.compile(r"Spark Connect server started at: \S*?:(\d+)")


class ConnectServer:
    """Spark's own server, of the pyspark that runs the tests or, without Delta, of another Python's; ended with the
    context."""

    def __init__(self, folder: Path, confs: Mapping[str, str] | None = None, python: Path = HERE) -> None:
        self._python = python
        self._folder = folder
        self._confs = confs or {}
        self._log = folder / "server.log"
        self._port = 0

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    def __enter__(self) -> ConnectServer:
        builder = session_builder("server", SMALL["spark.master"], delta_confs(), with_delta=self._python == HERE)
        confs = {
            **builder._options,  # Delta's too, for the offsets table through it
            **SMALL,
            **self._confs,
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM takes as many tasks
            "spark.log.level": "",  # its log says where it listens
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",  # any; the log says which
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        submit = SPARK_HOME / "bin" / "spark-submit" if self._python == HERE else self._python.with_name("spark-submit")
        options = [word for name, value in confs.items() if value for word in ("--conf", f"{name}={value}")]
        main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        with self._log.open("wb") as log:
            # The scripts that it runs through give their process to Java in the end.
            self._process = subprocess.Popen(
                [str(submit), *options, *main],
                cwd=self._folder,
                env=environment(self._python),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(self._has_started, "the Connect server to start", seconds=_START_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def _has_started(self) -> bool:
        assert self._process.poll() is None, f"the Connect server ended\n{tail(self._log, LOG_LINES)}"
        found = _STARTED.search(self._log.read_text(errors="replace"))
        self._port = int(found[1]) if found else 0
        return found is not None
