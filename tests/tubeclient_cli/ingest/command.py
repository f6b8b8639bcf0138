"""The command in its own process, and a way to hold up its next round."""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from embedded_tubemq import EmbeddedTubeMQ
from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.storage.store import NewMessage
from tests.exactly_once.processes import Child, none_left
from tests.spark_home import delta_confs
from tests.waiting import wait_for
from tubeclient import reader_groups_of

__all__ = ["START_SECONDS", "hold_next_round", "ingest", "rounds_in", "settings_file", "started"]

START_SECONDS = 240.0


def settings_file(tube: EmbeddedTubeMQ, folder: Path, trigger: str) -> Path:
    """Fifty messages are three rounds."""
    path = folder / "ingest.toml"
    path.write_text(
        f"""
        [ingest]
        master-servers = "{tube.master_address}"
        consumer-group = "clicks_etl"
        topics = ["clicks"]
        target = "{folder / "table"}"
        max-offsets-per-trigger = 20
        trigger = "{trigger}"
        [source]
        masterWebPort = {tube.master_web_port}
        """
    )
    return path


def ingest(tube: EmbeddedTubeMQ, folder: Path, *more: str, trigger: str = "1s") -> Child:
    """Start the job on two cores."""
    command = [sys.executable, "-m", "tubeclient_cli.app", "ingest"]
    command += ["--settings", str(settings_file(tube, folder, trigger)), "--spark-master", "local[2]"]
    command += ["--conf", "spark.driver.memory=1g", "--conf", "spark.sql.shuffle.partitions=2"]
    command += [word for name, value in delta_confs().items() for word in ("--conf", f"{name}={value}")]
    command += more
    mark = uuid.uuid4().hex
    return Child("ingest", command, folder / f"log-{mark}", mark)


def rounds_in(table: Path) -> int:
    """How many rounds a new table has: its first two commits have no rows."""
    return len(list((table / "_delta_log").glob("*.json"))) - 2


@contextlib.contextmanager
def started(tube: EmbeddedTubeMQ, folder: Path, *more: str, rounds: int) -> Iterator[Child]:
    """The job, once so many rounds are complete; it is killed in the end, and nothing of it may be left."""
    job = ingest(tube, folder, *more)
    with none_left(job.mark):
        try:

            def done() -> bool:
                assert job.running, job.tail()
                return rounds_in(folder / "table") >= rounds

            wait_for(done, f"{rounds} rounds", seconds=START_SECONDS)
            yield job
        finally:
            # One that stands still hears of this all the same.
            job.kill()


def hold_next_round(tube: EmbeddedTubeMQ) -> None:
    """Let ten more messages come, and return when a task reads them, which the broker keeps waiting from now on."""
    tube.broker_faults().answer_delay_ms = 5_000
    tube.load("clicks", [NewMessage(0, str(n).encode()) for n in range(50, 60)])
    cursors = [Cursor(group, "clicks", 0) for group in reader_groups_of("clicks_etl")]
    wait_for(
        lambda: tube.inspect(lambda broker: any(map(broker.ownership.owner, cursors))), "a task to read", seconds=90
    )
