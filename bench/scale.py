"""What reading costs at scale: 10 brokers, 10 000 partitions, 1 000 cores, 10 million rows a second.

No machine here holds that. So parts are measured, each alone, and the rest is computed from them; each line says which.
The planner is measured against brokers that are books, in virtual time, with 1 000 stores of ten partitions and with
10 000 stores of one. Then a day of batches is planned against 1 000 such brokers, and the memory of all that must stay
as it is: else the exit code is 1.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import psutil

from bench.books import Shape
from bench.planned_day import plan_for
from bench.registrations import CPU_KEY as REGISTRATION_CPU
from bench.results import RESULTS_FILE, Results
from bench.scale_lines import Line, Measured, day_lines, grows, ten_lines
from bench.scale_parts import requests_of_a_range, table_commits
from spark_source.stream.planner_process import collect_seldom
from tests.simulation.ingest import install

__all__ = ["main"]

_CORES: Final = 1_000
_TEN: Final = Shape(brokers=10, topics=10, stores=10, partitions=10, rows_a_second=10_000_000)
_TEN_OF_ONE: Final = _TEN._replace(stores=100, partitions=1)
_THOUSAND: Final = _TEN._replace(brokers=1_000, topics=1, stores=1)
_DAY_SOURCE_COUNT: Final = 16
_SAMPLES: Final = 24
_TABLE_COMMITS: Final = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if memory grew."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)
    published = Results.from_json(RESULTS_FILE.read_text()).medians()
    collect_seldom()
    print(f"load {os.getloadavg()[0]:.1f}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="tubeclient-scale-") as name:
        folder = Path(name)
        requests = requests_of_a_range(folder / "asked")
        commits = table_commits(folder / "offsets", _TEN.all_partitions, _TABLE_COMMITS)
        install()  # from here on the product's clocks are the simulation's
        before = psutil.Process().memory_info().rss
        ten, of_one = (
            plan_for(
                folder / f"stores_of_{shape.partitions}",
                shape,
                source_count=_CORES,
                batches=options.batches,
                interval_seconds=options.batch_seconds,
            )
            for shape in (_TEN, _TEN_OF_ONE)
        )
        grown = psutil.Process().memory_info().rss - before
        measured = Measured(
            _TEN,
            ten,
            of_one,
            requests,
            commits,
            grown,
            _CORES,
            options.batch_seconds,
            published.get("executor_cpu/small/eight_stores/all/executors"),
            published.get(REGISTRATION_CPU),
        )
        _print("1 000 stores of ten partitions; 10 000 of one", ten_lines(measured))
        if options.hours == 0:
            return 0
        day = plan_for(
            folder / "day",
            _THOUSAND,
            source_count=_DAY_SOURCE_COUNT,
            batches=int(options.hours * 3_600 / options.day_batch_seconds),
            interval_seconds=options.day_batch_seconds,
            samples=_SAMPLES,
        )
    _print("a day", day_lines(_THOUSAND, day))
    return 1 if grows(day.memory) else 0


def _print(title: str, lines: Iterable[Line]) -> None:
    print(f"| | {title} | |\n|---|---|---|")
    for line in lines:
        print(f"| {line.what} | {line.value} | {line.how} |")
    print(flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=20, metavar="N", help="for ten brokers (%(default)s)")
    parser.add_argument("--batch-seconds", type=float, default=10, metavar="S", help="between them (%(default)s)")
    parser.add_argument("--hours", type=float, default=24, help="against 1 000 brokers; 0: none (%(default)s)")
    parser.add_argument(
        "--day-batch-seconds", type=float, default=900, metavar="S", help="between its batches (%(default)s)"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
