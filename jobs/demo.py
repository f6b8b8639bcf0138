"""The demonstration: TubeMQ, Spark and Delta on this machine, in under three minutes.

Starts an embedded TubeMQ with two brokers, sends it 336 776 flights, and writes them to a Delta table with `tubeclient
ingest`. The job is stopped halfway and started again with a new checkpoint. Then the table is read back without Spark
and compared. Exit code 0 only if each message of the brokers is in the table once, and each flight is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from jobs.demo_chart import draw, read_progress
from jobs.demo_proof import Check, broker_ends, prove_offsets, prove_resume, prove_rows
from jobs.flights import flight_messages, tally
from tubeclient.producer import Producer, SendResult
from tubeclient.settings import ClientSettings

OUTPUT = Path(__file__).resolve().parents[1] / "demo-output"
TOPIC, GROUP, BROKERS = "flights", "demo_etl", 2
ROWS_PER_BATCH = 30_000
STOP_AFTER_ROWS = 60_000
_SLICE = 5_000
"""Messages handed to the producer in one call."""
_READY_SECONDS, _RUN_SECONDS, _END_SECONDS = 30.0, 150.0, 90.0

console = Console(highlight=False)
began = time.monotonic()


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {text}", soft_wrap=True)


class DemoError(RuntimeError):
    """The demonstration cannot continue; the text says why."""


@contextlib.contextmanager
def process(name: str, arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program with its output in demo-output/NAME.log; it is ended when the block is left, by force if
    needed."""
    with (OUTPUT / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Only this program gets Ctrl-C; it then ends its children one by one.
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        )
        try:
            yield child
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(_END_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait(10)


def wait_for(what: str, done: Callable[[], bool], child: subprocess.Popen[bytes], name: str, seconds: float) -> None:
    """Wait until `done` is true. DemoError if the process ends first, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while not done():
        if child.poll() is not None:
            raise DemoError(f"{name} ended with {child.returncode} before {what}; see {OUTPUT / name}.log")
        if time.monotonic() >= deadline:
            raise DemoError(f"{what}: not within {seconds:.0f} s; see {OUTPUT / name}.log")
        time.sleep(0.1)


def wait_for_end(child: subprocess.Popen[bytes], name: str, seconds: float) -> None:
    """Wait for a process to end with 0."""
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        raise DemoError(f"{name} did not end within {seconds:.0f} s; see {OUTPUT / name}.log") from None
    if code != 0:
        raise DemoError(f"{name} ended with {code}; see {OUTPUT / name}.log")


class Sender(threading.Thread):
    """Sends all messages while the job runs, and counts those that a broker acknowledged."""

    def __init__(self, master: str, bodies: list[bytes]) -> None:
        super().__init__(name="sender", daemon=True)
        self._master = master
        self._bodies = bodies
        self.acknowledged: list[bytes] = []
        self.seconds = 0.0
        self.error: BaseException | None = None

    def run(self) -> None:
        started = time.monotonic()
        try:
            with Producer(ClientSettings((self._master,))) as producer:
                producer.publish([TOPIC])
                waiting: list[Future[SendResult]] = []
                for start in range(0, len(self._bodies), _SLICE):
                    sent = producer.submit_many(TOPIC, self._bodies[start : start + _SLICE])
                    self._settle(waiting)
                    waiting = sent
                self._settle(waiting)
        except BaseException as error:
            self.error = error
        self.seconds = time.monotonic() - started

    def _settle(self, results: list[Future[SendResult]]) -> None:
        """Wait for the answers to a slice; the next slice follows."""
        for result in results:
            result.result(timeout=60)
            self.acknowledged.append(self._bodies[len(self.acknowledged)])

    def finish(self) -> None:
        """Wait for the last answer. Raises DemoError for any failure."""
        self.join(_RUN_SECONDS)
        if self.is_alive():
            raise DemoError(f"sending did not end within {_RUN_SECONDS:.0f} s")
        self.check()

    def check(self) -> None:
        """Raise DemoError if sending has failed."""
        if self.error is not None:
            raise DemoError(f"sending failed: {self.error}") from self.error


def ingest_arguments(addresses: dict[str, Any], run: int, trigger: str) -> list[str]:
    """The command line of one run of the job; each run has its own checkpoint and progress file."""
    settings = {
        "--master-servers": addresses["master"],
        "--consumer-group": GROUP,
        "--topic": TOPIC,
        "--target": str(OUTPUT / "table"),
        "--checkpoint": str(OUTPUT / f"checkpoint-{run}"),
        "--offsets-table": str(OUTPUT / "offsets"),
        "--source-count": "2",
        "--max-offsets-per-trigger": str(ROWS_PER_BATCH),
        "--trigger": trigger,
        "--progress-file": str(OUTPUT / f"progress-{run}.jsonl"),
        "--spark-master": "local[2]",
    }
    flags = [part for pair in settings.items() for part in pair]
    confs = ["spark.driver.memory=1g", "spark.sql.shuffle.partitions=2"]
    flags += [part for conf in confs for part in ("--conf", conf)]
    flags += ["--option", f"masterWebPort={addresses['masterWebPort']}"]
    return ["-m", "tubeclient_cli.app", "ingest", *flags]


def last_line(name: str) -> str:
    """The last line that a process printed."""
    lines = (OUTPUT / f"{name}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "(nothing)"


def demonstrate() -> list[Check]:
    """Run everything and return the checks."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    bodies = flight_messages()
    say(f"{len(bodies):,} flights, {sum(map(len, bodies)) / 1e6:.0f} MB of JSON")

    ready = OUTPUT / "ready.json"
    served = ["-m", "tubeclient_cli.app", "server", "--data-dir", str(OUTPUT / "tubemq"), "--topic", f"{TOPIC}:2:2"]
    served += ["--brokers", str(BROKERS), "--ready-file", str(ready)]
    with process("tubemq", served) as tubemq:
        wait_for("TubeMQ was ready", ready.exists, tubemq, "tubemq", _READY_SECONDS)
        addresses = json.loads(ready.read_text())
        say(f"embedded TubeMQ: {BROKERS} brokers, topic {TOPIC} with 2 stores of 2 partitions on each")
        sender = Sender(addresses["master"], bodies)
        sender.start()
        with process("ingest-1", ingest_arguments(addresses, 1, "1s")) as job:
            say("sending; `tubeclient ingest` with checkpoint 1")
            query = OUTPUT / "checkpoint-1" / "metadata"
            wait_for("the job's query ran", query.exists, job, "ingest-1", _RUN_SECONDS)
            running_since = datetime.now(UTC)
            progress = OUTPUT / "progress-1.jsonl"

            def far_enough() -> bool:
                sender.check()
                events = read_progress(progress)
                return bool(events) and events[-1]["total_rows"] >= STOP_AFTER_ROWS

            wait_for("the job was in the middle", far_enough, job, "ingest-1", _RUN_SECONDS)
            say(f"SIGINT to the job, which has written {read_progress(progress)[-1]['total_rows']:,} rows")
            job.send_signal(signal.SIGINT)
            wait_for_end(job, "ingest-1", _END_SECONDS)
        say(f"run 1: {last_line('ingest-1')}")
        resume = prove_resume(OUTPUT / "offsets", GROUP, OUTPUT / "table")
        say(f"the offsets table: {resume.detail}")
        sender.finish()
        say(f"sent {len(sender.acknowledged):,} messages, {len(sender.acknowledged) / sender.seconds:,.0f} a second")

        with process("ingest-2", ingest_arguments(addresses, 2, "available-now")) as job:
            say("`tubeclient ingest` again, with checkpoint 2, which is new")
            wait_for_end(job, "ingest-2", _RUN_SECONDS)
        say(f"run 2: {last_line('ingest-2')}")

        web_addresses = {b["brokerId"]: f"127.0.0.1:{b['webPort']}" for b in addresses["brokers"]}
        ends = broker_ends(web_addresses, TOPIC)

    runs = [read_progress(OUTPUT / f"progress-{run}.jsonl") for run in (1, 2)]
    draw(runs, running_since, len(bodies), OUTPUT / "progress.png")
    both_ran = all(events and events[-1]["total_rows"] > 0 for events in runs)
    share = " and ".join(f"{events[-1]['total_rows'] if events else 0:,}" for events in runs)
    return [
        Check("both runs wrote rows", both_ran, share),
        resume,
        *prove_rows(OUTPUT / "table", tally(sender.acknowledged), ends),
        prove_offsets(OUTPUT / "offsets", GROUP, ends),
    ]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold a lock on this file: two demonstrations would write to the same folder."""
    with Path(__file__).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError("another demonstration is running in this folder; wait until it has ended") from None
        yield


def main() -> int:
    """Run the demonstration; returns the exit code."""
    # Like Ctrl-C, so that the children end too: they are in sessions of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with alone():
            checks = demonstrate()
    except DemoError as error:
        console.print(f"[bold red]demo: {error}[/bold red]", soft_wrap=True)
        return 1
    console.print("\nRead back without Spark:")
    for check in checks:
        mark = "[green]yes[/green]" if check.holds else "[bold red]NO [/bold red]"
        console.print(f"  {mark}  {check.statement} ({check.detail})", soft_wrap=True)
    console.print(f"\nPicture: {OUTPUT / 'progress.png'}", soft_wrap=True)
    proven = all(check.holds for check in checks)
    verdict = "[bold green]proven[/bold green]" if proven else "[bold red]NOT proven[/bold red]"
    console.print(f"Each message once, in {time.monotonic() - began:.0f} s: {verdict}")
    return 0 if proven else 1


if __name__ == "__main__":
    sys.exit(main())
