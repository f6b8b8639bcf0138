"""The ingest job: how fast it takes a backlog into Delta, and how long a round of one row takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.measuring import Results, Side, timed
from bench.stage import TASKS, Stage, Workload
from tubeclient import Producer

__all__ = ["measure_ingest"]

_BACKLOG: Final = Workload("300 k x 100 bytes", 300_000, 100)
_ROUND_SECONDS: Final = 60.0
_WARM_UPS: Final = 5
"""Rounds of one row, while the JVM gets warm."""
_TYPED: Final[Mapping[str, Any]] = {"format": "json", "schema": "id LONG"}


def measure_ingest(stage: Stage, results: Results) -> None:
    """A backlog in one run, as it is and parsed as JSON; then rounds of one row each, of a job that goes on."""
    from tubeclient_ingest.job import Ingest

    work = _BACKLOG.scaled(stage.scale)
    topic = stage.tube_topic(work)

    def job(topic: str, **more: Any) -> Ingest:
        folder = stage.folder / stage.name("ingest")
        if "format" in more:
            more["bad_records"] = str(folder / "bad")
        return Ingest(
            stage.spark,
            target=str(folder / "target"),
            offsets_table=str(folder / "offsets"),
            master_servers=stage.tubemq.master_address,
            consumer_group=stage.name("group"),
            topics=[topic],
            source_count=TASKS,
            source_options={"masterWebPort": str(stage.tubemq.master_web_port)},
            **more,
        )

    def whole(**more: Any) -> Side:
        def measure() -> Mapping[str, float]:
            one = job(topic, **more)
            with timed() as running:
                summary = one.run()
            if summary.rows != work.messages:
                raise RuntimeError(f"the job took {summary.rows} rows, not {work.messages}")
            return {"rows/s": work.messages / running.seconds, "seconds": running.seconds}

        return measure

    def of_one_row(name: str, **more: Any) -> None:
        own = stage.name("rounds")
        stage.empty_topic(own)
        one = job(own, trigger="0s", **more)
        with Producer(stage.settings) as producer:
            producer.publish([own])
            producer.send(own, b'{"id":0}')
            one.start()
            rounds = range(_WARM_UPS + results.rounds)
            try:
                seconds = [_round(one, lambda: producer.send(own, b'{"id":1}')) for _ in rounds]
            finally:
                one.stop()
        results.add("ingest, a round of one row", name, "seconds", seconds[-results.rounds :])
        stage.say(f"ingest, rounds of one row, {name}: {' '.join(f'{value:.2f}' for value in seconds)}")

    sides = {"values as they are": whole(), "JSON into columns": whole(**_TYPED)}
    results.take_turns(f"ingest, {_BACKLOG.title}", sides)
    of_one_row("values as they are")
    of_one_row("JSON into columns", **_TYPED)


def _round(job: Any, send: Callable[[], object]) -> float:
    """Seconds of the round that takes the message that is sent now. RuntimeError: there is none within a minute."""
    deadline = time.monotonic() + _ROUND_SECONDS
    while job.lastProgress is None and job.isActive and time.monotonic() < deadline:
        time.sleep(0.02)
    before = job.summary.rounds
    send()
    while job.summary.rounds == before:
        if not job.isActive or time.monotonic() >= deadline:
            raise RuntimeError(f"the job made no round: {job.exception()}")
        time.sleep(0.01)
    return float(job.lastProgress.seconds)
