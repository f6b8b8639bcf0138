"""What a commit to the offsets table costs, and whether that stays so: delta-rs, local disk, one group.

Each commit is one `OffsetsRun.record` with all partitions moved, as after each batch; the table's upkeep runs beside
it, as it does for a query. Opening the table and a run is what a restart of the query waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from bench.measuring import Results, timed
from bench.stage import Stage
from offsets_store import GroupKey, OffsetsRun, OffsetsTable, PartitionProgress
from spark_source.stream.planner_process import collect_seldom
from tubeclient.keys import PartitionKey

__all__ = ["measure_offsets_table"]

_KEY: Final = GroupKey("clicks_etl", ["clicks"])
_PARTITIONS, _FEW, _BROKERS = 1_000, 2, 4
_COUNTED, _BETWEEN, _ROUNDS = 200, 2_000, 10


def measure_offsets_table(stage: Stage, results: Results) -> None:
    """Milliseconds of the first commits, of as many after some thousands, and of opening the table."""
    collect_seldom()
    uri = str(stage.folder / stage.name("offsets"))
    run = OffsetsTable(uri).open_run(_KEY, 16)
    counted, between = (max(2, round(count * stage.scale)) for count in (_COUNTED, _BETWEEN))
    last = between + 2 * counted + 1
    steps = iter(range(1, last + 1))
    what = f"the offsets table, {_PARTITIONS} partitions"
    _record(run, _PARTITIONS, steps, 1)  # makes the table
    results.add(what, "a commit, the first ones", "milliseconds", _record(run, _PARTITIONS, steps, counted))
    _record(run, _FEW, steps, between)
    after = _record(run, _PARTITIONS, steps, counted)
    results.add(what, f"a commit, after {between}", "milliseconds", after)
    there = OffsetsTable(uri).positions(_KEY.consumer_group, _KEY.topics)
    if len(there) != _PARTITIONS or set(there.values()) != {28 * last}:
        raise RuntimeError(f"the table has other positions of {len(there)} partitions")
    openings: list[float] = []
    for _ in range(_ROUNDS):
        with timed() as opening:
            OffsetsTable(uri).open_run(_KEY, 16, force=True)
        openings.append(opening.seconds * 1000)
    results.add(what, "to open the table and a run", "milliseconds", openings)


def _record(run: OffsetsRun, partitions: int, steps: Iterator[int], count: int) -> list[float]:
    """Milliseconds of `count` commits: the median of each tenth of them."""
    keys = [PartitionKey(1 + number % _BROKERS, "clicks", number // _BROKERS) for number in range(partitions)]
    times: list[float] = []
    for _ in range(count):
        step = next(steps)
        progress = [
            PartitionProgress(key, 28 * step, 28 * (step + 100), 0, 28 * (step - 1), (), "modulo") for key in keys
        ]
        with timed() as recording:
            written = run.record(progress)
        if not written:
            raise RuntimeError("nothing was written")
        times.append(recording.seconds * 1000)
    each = max(1, count // _ROUNDS)
    return [median(times[first : first + each]) for first in range(0, count, each)]
