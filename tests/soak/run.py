"""The run: an embedded server, Spark and `tubeclient ingest` as processes, a feed, and samples of all of them."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.exactly_once.job import Job
from tests.exactly_once.looking import row_count
from tests.exactly_once.processes import Child, marked, none_left
from tests.exactly_once.spark_cluster import SparkCluster
from tests.soak.feed import Feed
from tests.soak.processes import ROLES, use_by_role
from tests.soak.sizes import sizes_below
from tests.soak.slope import Slope, slope_of
from tests.soak.verdict import Counts, counts_of
from tests.waiting import wait_for
from tubeclient import ClientSettings

__all__ = ["Report", "soak"]

_TOPIC: Final = "numbers"
_SAMPLE_SECONDS: Final = 5.0
_TELL_SECONDS: Final = 60.0
_WARM_UP_SHARE: Final = 0.2
"""Of the run: Java compiles, caches fill. Slopes leave it out."""
_CATCH_UP_SECONDS: Final = 600.0
_SHOWN: Final = {"memory MB": "memory_mb", "descriptors": "descriptors", "threads": "threads"}
_OFFSETS_FILES: Final = "offsets table files"
_OFFSETS_MB: Final = "offsets table MB"


@dataclass
class Report:
    """Samples by figure, and the verdict."""

    seconds: list[float] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By name, one value for each of `seconds`; NaN where a role had no process."""
    sent: int = 0
    failed: list[str] = field(default_factory=list)
    counts: Counts | None = None

    @property
    def whole(self) -> bool:
        """Each number came once, and nothing else did."""
        return self.counts == Counts(0, 0, 0) and not self.failed

    def slopes(self) -> dict[str, Slope]:
        """Of each figure, after the warm-up."""
        first = int(len(self.seconds) * _WARM_UP_SHARE)
        return {name: slope_of(self.seconds[first:], values[first:]) for name, values in self.figures.items()}

    def lines(self) -> list[str]:
        """Everything, for people."""
        counts = self.counts
        lines = [f"{'figure':<36}{'mean':>12}{'an hour':>12}{'error':>10}"]
        for name, slope in self.slopes().items():
            lines.append(
                f"{name:<36}{slope.mean:>12,.1f}{slope.per_hour:>+12,.1f}{slope.error:>10,.1f}"
                f"{'   grows' if slope.grows else ''}"
            )
        lines.append(f"{self.sent:,} messages sent, {len(self.failed)} of them without an acknowledgement")
        if counts is not None:
            lines.append(f"records: {counts.missing} missing, {counts.doubled} doubled, {counts.strange} never sent")
        return lines


def soak(folder: Path, minutes: float, per_second: float, say: Callable[[str], None]) -> Report:
    """Feed `per_second` messages for so long; then wait for the job to catch up, stop it, and count."""
    mark = uuid.uuid4().hex
    report, letters = Report(), folder / "bad_records"
    with (
        none_left(f"{mark}-spark", f"{mark}-job", f"{mark}-tube"),
        _server(folder, f"{mark}-tube") as settings,
        SparkCluster(folder / "spark", f"{mark}-spark") as spark,
    ):
        job = _job(folder, f"{mark}-job", settings, spark.url, letters)
        feed = Feed(settings, _TOPIC, per_second)
        job.start()
        try:
            with feed.running():
                _watch(
                    report,
                    job,
                    feed,
                    [f"{mark}-{part}" for part in ("spark", "job", "tube")],
                    minutes * 60,
                    letters,
                    say,
                )
            report.sent, report.failed = feed.sent, feed.failed
            say(f"the feed has ended, {feed.sent:,} messages sent")
            job.wait_for(
                lambda: row_count(job.table) + row_count(letters) >= feed.numbers, "the rest", _CATCH_UP_SECONDS, 1.0
            )
            job.stop()
        finally:
            if job.run.running:
                job.kill()
    report.counts = counts_of(job.table, letters, feed.numbers)
    return report


@contextmanager
def _server(folder: Path, mark: str) -> Iterator[ClientSettings]:
    """`tubeclient server` with two brokers and eight partitions."""
    ready = folder / "ready.json"
    command = ["-m", "tubeclient_cli.app", "server", "--data-dir", str(folder / "tube"), "--brokers", "2"]
    command += ["--topic", f"{_TOPIC}:2:2", "--ready-file", str(ready)]
    server = Child("server", [sys.executable, *command], folder / "server.log", mark)
    try:
        wait_for(ready.exists, "the server")
        addresses = json.loads(ready.read_text())
        yield ClientSettings((addresses["master"],), master_web_port=addresses["masterWebPort"])
    finally:
        server.ask_to_end()
        try:
            server.wait(30)
        finally:
            server.kill()


def _job(folder: Path, mark: str, settings: ClientSettings, spark_url: str, letters: Path) -> Job:
    given = {
        "master-servers": ",".join(settings.master_servers),
        "consumer-group": "soak",
        "topic": _TOPIC,
        "source-count": "2",
        "max-offsets-per-trigger": "60000",
        "trigger": "500ms",
        "format": "json",
        "schema": "number BIGINT",
        "bad-records": str(letters),
    }
    source = {"masterWebPort": str(settings.master_web_port), "payload": "inlong"}
    return Job(folder / "job", mark, spark_url, given, source)


def _watch(
    report: Report, job: Job, feed: Feed, marks: list[str], seconds: float, letters: Path, say: Callable[[str], None]
) -> None:
    """Take samples for so long. The first comes with the first rows."""
    job.wait_for(lambda: row_count(job.table) > 0, "the first rows", poll_seconds=1.0)
    began = told = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        job.check()
        report.seconds.append(now - began)
        uses = use_by_role(process for mark in marks for process in marked(mark))
        for role in ROLES:
            use = uses.get(role)
            for name in ("memory_mb", "descriptors", "threads"):
                value = float("nan") if use is None else getattr(use, name)
                report.figures[f"{role}: {name.removesuffix('_mb')}{' MB' if name == 'memory_mb' else ''}"].append(
                    value
                )
        sizes = [*sizes_below(job.offsets_table)]
        report.figures[_OFFSETS_FILES].append(len(sizes))
        report.figures[_OFFSETS_MB].append(sum(sizes) / 2**20)
        behind = feed.numbers - row_count(job.table) - row_count(letters)
        report.figures["records behind"].append(behind)
        if now - told >= _TELL_SECONDS or now == began:
            told = now
            memory = ", ".join(f"{role} {use.memory_mb:,.0f}" for role, use in uses.items())
            say(
                f"{(now - began) / 60:5.1f} of {seconds / 60:.0f} min: {feed.sent:,} messages, "
                f"{behind:,} records behind; MB: {memory}"
            )
        time.sleep(max(0.0, now + _SAMPLE_SECONDS - time.monotonic()))
