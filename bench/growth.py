"""The same backlog in ever more partitions: each in a store of its own, or all in one."""

from __future__ import annotations

import time
from functools import partial

from bench.results import Results, RunSettings
from bench.rounds import Side, add_turns
from bench.spark_reads import timed_read, tube_options
from bench.stage import Stage
from bench.workloads import GROWING_PARTITIONS, GROWTH, growing, scaled
from spark_source.options.given import parse_options
from spark_source.stream.batch_reader import TubeBatchReader

__all__ = ["measure_growth"]


def measure_growth(stage: Stage, results: Results, run: RunSettings) -> None:
    """Rows a second of the source beside the broker's ceiling, and how long planning takes."""
    work = scaled(GROWTH, run.scale)
    layouts = [growing(count, in_stores=kind) for kind in (True, False) for count in GROWING_PARTITIONS]
    topics = stage.tube_topics(work, layouts)
    reads: dict[str, Side] = {}
    plans: dict[str, Side] = {}
    titles: dict[str, str] = {}

    def rate(seconds: Side) -> Side:
        return lambda: work.messages / seconds()

    for layout, topic in zip(layouts, topics, strict=True):
        options = tube_options(stage.settings, topic)
        where, title = f"growth/{layout.key}", f"{GROWTH.title}, {layout.title}"
        reads[f"{where}/ceiling"] = rate(partial(stage.ceiling.drain, topic, work.messages, work.body_bytes))
        titles[f"{where}/ceiling"] = f"{title}: the broker's ceiling"
        reads[f"{where}/tubeclient"] = rate(partial(timed_read, stage.spark, "tubeclient", options, work.messages))
        titles[f"{where}/tubeclient"] = f'{title}: Spark, `format("tubeclient")`'
        plans[f"{where}/planning"] = partial(_planning_ms, options, layout.stores * layout.partitions)
        titles[f"{where}/planning"] = f"{title}: planning a read"
    add_turns(results, run, reads, titles, "rows/s", stage.say)
    add_turns(results, run, plans, titles, "milliseconds", stage.say)


def _planning_ms(options: dict[str, str], partitions: int) -> float:
    """Milliseconds to plan a batch read as Spark does, with the calls to master and broker."""
    reader = TubeBatchReader(parse_options(options))
    started = time.perf_counter()
    tasks = reader.partitions()
    milliseconds = (time.perf_counter() - started) * 1000
    planned = sum(len(getattr(task, "ranges", ())) for task in tasks)
    if planned != partitions:
        raise RuntimeError(f"the plan has {planned} ranges for {partitions} partitions")
    return milliseconds
