"""The job under test: `tubeclient ingest` on the Spark cluster, as a process that is stopped and started again."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.exactly_once.looking import ICEBERG_TABLE, Positions, records
from tests.exactly_once.processes import Child, Found, marked, send_signal
from tests.spark_home import JAVA_OPTIONS, delta_confs
from tests.waiting import wait_for

__all__ = ["SPARK", "Job"]

_COMMAND = "tubeclient ingest: "
_END_SECONDS = 120.0
_KILLED_SECONDS = 10.0
SPARK = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    # What Spark has itself need not be sent to each new executor: 60 MB.
    "spark.jars.excludes": "org.apache.hadoop:*,org.apache.parquet:*,org.apache.logging.log4j:*,com.github.luben:*",
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Compiled plans are for more rows than these; without, a new driver has its first round sooner.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # A task that is slower than one and a half times the quicker half is given to the other executor as well.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "200ms",
}
"""A Spark that starts soon and is small, and that nobody but this machine reaches."""


class Zombie:
    """The processes of one run of the job, which are stopped here (SIGSTOP), and its id in the table's commits."""

    def __init__(self, run: Child, processes: list[Found], run_id: str | None) -> None:
        self._run = run
        self.processes = processes
        assert run_id is not None, "it has not written to the table"
        self.run_id = run_id
        for process in processes:
            send_signal(process, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT: all of them go on in the middle of what they were doing."""
        for process in self.processes:
            send_signal(process, signal.SIGCONT)

    def wait(self, seconds: float) -> int:
        """Return the run's exit status; AssertionError after `seconds`."""
        return self._run.wait(seconds)

    def last_words(self) -> str:
        """What the command said last for its user, cut short."""
        lines = self._run.log.read_text(errors="replace").splitlines()
        said = [line.removeprefix(_COMMAND) for line in lines if line.startswith(_COMMAND)]
        return said[-1][:200] if said else ""

    def kill(self) -> None:
        """SIGKILL for what is left of them."""
        for process in self.processes:
            send_signal(process, signal.SIGKILL)
        self._run.kill()


class Job:
    """The job in `folder`: its table, offsets table and a log of each run.

    `settings` are arguments of the command, by their names without dashes, `source` further options of the source.
    """

    def __init__(
        self, folder: Path, mark: str, spark_url: str, settings: Mapping[str, str], source: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.table = folder / "table"
        self.offsets_table = folder / "offsets"
        folder.mkdir(parents=True)
        self._is_iceberg = settings.get("table-format") == "iceberg"
        self.runs: list[Child] = []
        self._mark = mark
        self._spark_url = spark_url
        self._settings = dict(settings)
        self._source = dict(source)
        self._earlier: set[str] = set()
        self._aside: set[tuple[int, int]] = set()

    @property
    def run(self) -> Child:
        """The newest run."""
        return self.runs[-1]

    def start(self, **source: str) -> None:
        """Start the job; `source` are further options of the source from now on."""
        self._source.update(source)
        self._earlier = {record.run_id for _, record in records(self.table)}
        settings = {
            **self._settings,
            "target": ICEBERG_TABLE if self._is_iceberg else str(self.table),
            **({"warehouse": str(self.table)} if self._is_iceberg else {}),
            "offsets-table": str(self.offsets_table),
            "spark-master": self._spark_url,
        }
        confs = {**SPARK, **delta_confs()}
        # Its log is to have all that Spark writes, for who looks into a failed run.
        command = [sys.executable, "-m", "tubeclient_cli.app", "ingest", "--verbose"]
        command += [part for name, value in settings.items() for part in (f"--{name}", value)]
        command += [part for name, value in self._source.items() for part in ("--option", f"{name}={value}")]
        command += [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
        name = f"run-{len(self.runs) + 1}"
        self.runs.append(Child(name, command, self.folder / f"{name}.log", self._mark))

    def check(self) -> None:
        """AssertionError if the job has ended. It shows what is left of runs before, which may hold the group."""
        assert self.run.running, "the job has ended\n" + "\n".join(run.tail() for run in self.runs[-2:])

    def stop(self) -> None:
        """SIGTERM, and the job's own end after the running round; AssertionError if that is not a clean one."""
        self.run.ask_to_end()
        status = self.run.wait(_END_SECONDS)
        assert status == 0, f"a job that was asked to stop ended with {status}\n{self.run.tail()}"

    def kill(self) -> None:
        """SIGKILL for the driver, which is a JVM and the Python process that started it; its children are left."""
        for process in self._drivers():
            send_signal(process, signal.SIGKILL)
        self.run.kill()
        wait_for(lambda: not self._drivers(), "the driver to be gone", seconds=_KILLED_SECONDS)

    def set_aside(self) -> Zombie:
        """Stop the driver where it stands (SIGSTOP). The next start is one beside it; the one that stands still is the
        caller's to end."""
        zombie = Zombie(self.run, self._processes(), self.run_id)
        self._aside |= {(process.pid, process.begun) for process in zombie.processes}
        return zombie

    def _drivers(self) -> list[Found]:
        return [process for process in self._processes() if "org.apache.spark.deploy.SparkSubmit" in process.command]

    def _processes(self) -> list[Found]:
        """Those of the newest run: without what was set aside."""
        return [process for process in marked(self._mark) if (process.pid, process.begun) not in self._aside]

    @property
    def rounds(self) -> int:
        """The group's number of the table's newest commit; 0 for none. The first one has no rows."""
        return next((record.sequence for _, record in records(self.table)), 0)

    @property
    def run_id(self) -> str | None:
        """Of the newest run; None before its first commit."""
        newest = next((record.run_id for _, record in records(self.table)), None)
        return None if newest in self._earlier else newest

    @property
    def end_before_last(self) -> Positions:
        """Where the rows of the last commit but one end; {} if there is none."""
        found = records(self.table)
        next(found, None)
        return next(({str(key): at for key, at in record.ends.items()} for _, record in found), {})

    @property
    def first_end(self) -> Positions:
        """Where the group began, by its first commit."""
        *_, (_, first) = records(self.table)
        return {str(key): at for key, at in first.ends.items()}

    @property
    def version(self) -> int:
        """The table's newest version; -1 for none."""
        if self._is_iceberg:
            return next((version for version, _ in records(self.table)), -1)
        with contextlib.suppress(FileNotFoundError):
            stems = (path.stem for path in (self.table / "_delta_log").iterdir() if path.suffix == ".json")
            return max((int(stem) for stem in stems if stem.isdigit()), default=-1)
        return -1

    def wait_for(
        self, done: Callable[[], object], what: str, seconds: float = 120.0, poll_seconds: float = 0.005
    ) -> None:
        """Return as soon as `done` holds; AssertionError if the job ends before, or after `seconds`."""
        deadline = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() >= deadline:
                raise AssertionError(f"waited {seconds:g} s in vain for {what}\n{self.run.tail()}")
            time.sleep(poll_seconds)
