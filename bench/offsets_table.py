"""What a commit to the offsets table costs, and whether that stays so: delta-rs, local disk, one group.

Each commit is one `OffsetsRun.record` with all partitions moved, as after each batch. The first thousand are counted,
then commits of two partitions follow until the table has ten thousand, then as many as in the beginning are counted
again. The table's upkeep runs beside it, as it does for a query; what it takes from the commits is in their times.
Garbage is collected as in the planner's process. What opening the table and a run costs then is what a restart of the
query waits for.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.lines import HEADING, times_line
from offsets_store import GroupKey, OffsetsRun, OffsetsTable, PartitionProgress
from offsets_store.upkeep import EVERY_COMMITS
from spark_source.stream.planner_process import collect_seldom
from tubeclient.keys import PartitionKey

__all__ = ["main"]

_GOAL_P95_MS = 20.0
_KEY = GroupKey("clicks_etl", ["clicks"])
_BROKERS = 4
_FEW_PARTITIONS = 2
_OPENINGS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = _parser().parse_args(arguments)
    collect_seldom()
    with tempfile.TemporaryDirectory(dir=options.directory, ignore_cleanup_errors=True) as folder:
        uri = str(Path(folder) / "offsets")
        run = OffsetsTable(uri).open_run(_KEY, 16)
        steps = iter(range(1, options.commits + 2 * options.counted + 2))
        print(f"{options.partitions:,} partitions; milliseconds\n{HEADING}")
        _record(run, options.partitions, steps, 1)  # makes the table
        _counted(f"record, the first {options.counted:,}", run, options.partitions, steps, options.counted)
        _record(run, _FEW_PARTITIONS, steps, options.commits - options.counted)
        _counted(f"record, after {options.commits:,}", run, options.partitions, steps, options.counted)
        print(times_line("open the table and a run", [_opening(uri) for _ in range(_OPENINGS)]), flush=True)
        _print_size(Path(uri), options.commits + options.counted)
    return 0


def _counted(name: str, run: OffsetsRun, partitions: int, steps: Iterator[int], count: int) -> None:
    before = time.process_time()
    times = _record(run, partitions, steps, count)
    print(times_line(name, times, _GOAL_P95_MS))
    print(f"  CPU time of the process, each{(time.process_time() - before) * 1000 / count:>22.2f}", flush=True)


def _record(run: OffsetsRun, partitions: int, steps: Iterator[int], count: int) -> list[float]:
    """Milliseconds of each of `count` commits."""
    keys = [PartitionKey(1 + number % _BROKERS, "clicks", number // _BROKERS) for number in range(partitions)]
    times: list[float] = []
    for _ in range(count):
        step = next(steps)
        progress = [
            PartitionProgress(key, 28 * step, 28 * (step + 100), 0, 28 * (step - 1), (), "modulo") for key in keys
        ]
        started = time.perf_counter()
        if not run.record(progress):
            raise RuntimeError("nothing was written")
        times.append((time.perf_counter() - started) * 1000)
    return times


def _opening(uri: str) -> float:
    started = time.perf_counter()
    OffsetsTable(uri).open_run(_KEY, 16, force=True)
    return (time.perf_counter() - started) * 1000


def _print_size(folder: Path, commits: int) -> None:
    log, checkpoints, data = (
        _files(folder / "_delta_log", "*.json"),
        _files(folder / "_delta_log", "*.checkpoint.*"),
        _files(folder, "consumerGroup=*/*.parquet"),
    )
    print(
        f"after {commits:,} commits, with an upkeep each {EVERY_COMMITS}: {log} of commits, {checkpoints} of "
        f"checkpoints, {data} of data"
    )


def _files(folder: Path, pattern: str) -> str:
    sizes: list[int] = []
    for path in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # the upkeep may be at work
            sizes.append(path.stat().st_size)
    return f"{len(sizes):,} files ({sum(sizes) / 1e6:.1f} MB)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.offsets_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--partitions", type=int, default=1_000, help="positions of each counted commit (%(default)s)")
    parser.add_argument("--counted", type=int, default=1_000, help="counted commits, twice (%(default)s)")
    parser.add_argument("--commits", type=int, default=10_000, help="commits before the second count (%(default)s)")
    parser.add_argument("--directory", type=Path, help="where the table is made; the temporary folder by default")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
