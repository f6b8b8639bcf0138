"""One run: a cluster of each kind, producers, the job, and faults drawn from a seed; then the verdict."""

from __future__ import annotations

import itertools
import math
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from embedded_tubemq import EmbeddedTubeMQ
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.conformance.cluster import Cluster, to_config
from tests.exactly_once.faults import FAULTS, kill_in_first_round
from tests.exactly_once.job import Job
from tests.exactly_once.judge import Row, Verdict, judge
from tests.exactly_once.looking import (
    ends_of_brokers,
    first_beginning,
    held_by_brokers,
    in_table,
    row_count,
)
from tests.exactly_once.order import OrderWatch, Positions
from tests.exactly_once.processes import none_left
from tests.exactly_once.scene import Fault, Scene
from tests.exactly_once.spark_cluster import SparkCluster
from tests.exactly_once.writers import Writers
from tests.waiting import wait_for

__all__ = ["SERVERS", "TOPIC", "Report", "job_of", "run", "scenery"]

TOPIC: Final = TopicSpec("numbers", num_partitions=2, num_stores=2)
SERVERS: Final = ("embedded", "apache")
_PROGRESS_SECONDS = 300.0
_CATCH_UP_SECONDS = 300.0
_LONGEST_PAUSE_SECONDS = 2.0
_EARLIER = 200
"""Messages that a job does not read which begins at the latest."""


@dataclass
class Report:
    """What was done when, and the figures."""

    server: str
    seed: int
    began: float = field(default_factory=time.monotonic)
    log: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    rounds: int = 0
    seconds: float = 0.0
    order: OrderWatch | None = None
    verdict: Verdict | None = None

    @property
    def whole(self) -> bool:
        """Each message came once, the brokers lost none, and the offsets table was never out of order."""
        assert self.verdict is not None
        assert self.order is not None
        return self.verdict.whole and self.order.looks > 0 and not self.order.wrong

    def say(self, text: str) -> None:
        """Note something, with the seconds since the beginning."""
        self.log.append(f"{time.monotonic() - self.began:7.1f} s  {text}")
        print(self.log[-1], flush=True)

    def lines(self) -> list[str]:
        """Everything, for people."""
        figures = {
            "seconds under way": f"{self.seconds:.0f}",
            "starts of the driver": f"{self.runs}",
            "rounds": f"{self.rounds}",
            "faults": f"{self.done.total()}",
            **{f"  {name}": f"{count}" for name, count in sorted(self.done.items())},
        }
        lines = [f"exactly once on {self.server}, seed {self.seed}", *self.log]
        lines += [f"{name:<38}{figure}" for name, figure in figures.items()]
        lines += self.order.lines() if self.order is not None else []
        return [*lines, *(self.verdict.lines() if self.verdict is not None else ["no verdict"])]


@contextmanager
def _serving(server: str, folder: Path) -> Iterator[Cluster]:
    """TubeMQ with two brokers and the topic."""
    if server == "embedded":
        with EmbeddedTubeMQ(folder, to_config([TOPIC]), brokers=2) as embedded:
            yield Cluster(embedded)
        return
    apache = ApacheTubeMQ(folder, brokers=2)
    apache.start([TOPIC])
    try:
        yield Cluster(apache)
    finally:
        apache.stop(clean=False)


@contextmanager
def scenery(folder: Path, server: str, workers: int = 2) -> Iterator[tuple[Cluster, SparkCluster, str]]:
    """TubeMQ and Spark, and the mark for drivers; after the block everything that was started has ended."""
    mark = uuid.uuid4().hex
    with (
        none_left(f"{mark}-spark", f"{mark}-job"),
        _serving(server, folder / "tube") as tube,
        SparkCluster(folder / "spark", f"{mark}-spark", workers) as spark,
    ):
        yield tube, spark, f"{mark}-job"


@contextmanager
def job_of(folder: Path, mark: str, tube: Cluster, spark: SparkCluster, **more: str) -> Iterator[Job]:
    """The job, yet to be started, killed after the block if it still runs; `more` are further settings."""
    settings = {
        **more,
        "master-servers": tube.master_address,
        "consumer-group": "numbers_etl",
        "topic": TOPIC.name,
        "source-count": "4",
        "max-offsets-per-trigger": "4000",
        "trigger": "0s",
    }
    options = {"masterWebPort": str(tube.master_web_port)}
    job = Job(folder / "job", mark, spark.url, settings, options)
    try:
        yield job
    finally:
        if job.runs and job.run.running:
            job.kill()


def run(
    server: str,
    folder: Path,
    seed: int,
    *,
    seconds: float = math.inf,
    rounds: float = math.inf,
    per_second: float = 200,
    first: tuple[Fault, ...] = (),
    faults: tuple[Fault, ...] = FAULTS,
    latest: bool = False,
    writer: str = "auto",
    table_format: str = "delta",
    down_seconds: float = 60.0,
    workers: int = 2,
) -> Report:
    """Do what is `first`, and then what the seed draws: each other fault once, in an order of its own, and all again
    and again; no further one once there were `rounds` of them, or `seconds` are over. A broker that stays down does so
    for `down_seconds` at least. With `latest` the job begins at the latest messages, of which there are some;
    `writer` and `table_format` are its settings. With one of Spark's `workers` no task runs twice at a time, and fewer
    processes start.

    Each fault draws from a source of its own: a seed means the same script, however long things take.
    """
    report = Report(server, seed)
    settings = {"writer": writer, "table-format": table_format, **({"starting-offsets": "latest"} if latest else {})}
    order = random.Random(seed)
    with (
        scenery(folder, server, workers) as (tube, spark, mark),
        job_of(folder, mark, tube, spark, **settings) as job,
    ):
        report.order = watch = OrderWatch(job)
        scene = Scene(tube, spark, job, watch, order, down_seconds)
        writers = Writers(tube.settings, TOPIC.name)
        report.say("TubeMQ and Spark run")
        started = time.monotonic()
        try:
            with writers.writing(per_second), watch.watching():
                before: Positions | None = None
                if latest:
                    wait_for(lambda: len(writers.acknowledged) >= _EARLIER, "messages to be there before the job")
                    before = ends_of_brokers(tube.settings, TOPIC.name)
                job.start()
                _do(report, kill_in_first_round, scene)
                for fault in itertools.chain(first, _drawn(order, first, faults, rounds, started + seconds)):
                    scene = replace(scene, rng=random.Random(f"{seed}, fault {report.done.total()}"))
                    time.sleep(scene.rng.uniform(0, _LONGEST_PAUSE_SECONDS))
                    _do(report, fault, scene)
            report.say("the producers have ended")
            report.verdict = _verdict(report, tube, job, writers, before)
            watch.after_stop()
        finally:
            report.seconds = time.monotonic() - started
            report.runs, report.rounds = len(job.runs), job.rounds
            for line in report.lines():
                print(line, flush=True)
    return report


def _drawn(
    order: random.Random, first: tuple[Fault, ...], faults: tuple[Fault, ...], rounds: float, until: float
) -> Iterator[Fault]:
    """What comes after `first`, in an order of `order`'s own: in the first round all others, and in each further one
    all; none once there were `rounds` of them, or past `until` on the monotonic clock, but one at least of the first
    round.
    """
    for done in itertools.count():
        if done >= rounds:
            return
        others = [fault for fault in order.sample(faults, len(faults)) if done or fault not in first]
        for number, fault in enumerate(others):
            if time.monotonic() >= until and (done or number):
                return
            yield fault


def _do(report: Report, fault: Fault, scene: Scene) -> None:
    """Do it, and see that rounds go on."""
    job = scene.job
    job.check()
    done = fault(scene)
    report.done[fault.__name__] += 1
    report.say(f"{fault.__name__}: {done}")
    before, since = job.rounds, time.monotonic()
    job.wait_for(lambda: job.rounds > before, f"a round after {fault.__name__}", _PROGRESS_SECONDS)
    report.say(f"  round {job.rounds} in the table {time.monotonic() - since:.1f} s later")


def _verdict(report: Report, tube: Cluster, job: Job, writers: Writers, before: Positions | None) -> Verdict:
    """Wait until the job has caught up, as far as it does, stop it, and compare: with `before`, which was the brokers'
    end before the job was started, what came since the job's first look."""
    held, acknowledged = held_by_brokers(tube.settings, TOPIC.name), writers.acknowledged
    report.say(f"the brokers hold {len(held):,} messages")
    if before is not None:
        earlier = set(held_by_brokers(tube.settings, TOPIC.name, _beginning(report, job, before)))
        report.say(f"of which {len(earlier):,} were there before the job's first look")
        held = [row for row in held if row not in earlier]
        acknowledged = {number: place for number, place in acknowledged.items() if Row(place, number) not in earlier}
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    # The rows themselves only when there are enough of them: twice as many of some are none of the others.
    while not (row_count(job.table) >= len(held) and set(held).issubset(in_table(job.table))):
        if time.monotonic() >= deadline:
            report.say(f"not all of them are in the table after {_CATCH_UP_SECONDS:.0f} s")
            break
        job.check()
        time.sleep(0.5)
    job.stop()
    report.say("the job has ended")
    return judge(acknowledged, writers.unknown, held, in_table(job.table))


def _beginning(report: Report, job: Job, before: Positions) -> Positions:
    """Where the first run looked and found the end, as its first commit says: not before the end that was seen before
    it was started, and where it noted in the offsets table that it begins."""
    began = job.first_end
    assert began == first_beginning(job.offsets_table)
    assert began.keys() == before.keys()
    wrong = {key: (before[key], began[key]) for key in began if before[key] > began[key]}
    assert not wrong, f"seen before the start, first look: {wrong}"
    report.say(f"the first look was {sum(began.values()) - sum(before.values()):,} bytes of index after the start")
    return began
