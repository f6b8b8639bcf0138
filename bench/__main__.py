"""All measurements side by side on this machine, in one run: `make bench`.

The run starts Apache TubeMQ 2.4.0, Apache Kafka 3.9.1, embedded_tubemq, Java's client and one Spark session (local[2]),
and fills the topics. Then all readers take turns, round by round. The first rounds warm up and do not count. The number
of messages that each side read is checked. A whole run writes bench/results.json, the tables of docs/performance.md and
docs/performance.png.

The exit code is 0 if every side read the right messages, at any speed; 1 if a measurement failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from bench.decode import measure_decode
from bench.executor_cpu import GROUP as EXECUTOR_CPU
from bench.executor_cpu import measure_executor_cpu
from bench.growth import measure_growth
from bench.inlong import measure_inlong
from bench.machine import load, machine, versions
from bench.plot import draw
from bench.registrations import GROUP as REGISTRATIONS
from bench.registrations import measure_registrations
from bench.results import RESULTS_FILE, Results, RunSettings
from bench.stage import Stage
from bench.streaming import measure_first_row, measure_latency, measure_streaming
from bench.tables import filled, tables
from bench.throughput import measure_throughput
from bench.workloads import WORKLOADS
from bench.writing import measure_writing
from spark_source.stream.planner_process import LOG_LEVEL_VARIABLE

__all__ = ["GROUPS", "main"]

Group = Callable[[Stage, Results, RunSettings], None]

GROUPS: Final[Mapping[str, Group]] = {
    EXECUTOR_CPU: measure_executor_cpu,
    **{workload.key: partial(measure_throughput, workload=workload) for workload in WORKLOADS},
    "decode": measure_decode,
    "inlong": measure_inlong,
    "growth": measure_growth,
    REGISTRATIONS: measure_registrations,
    "writing": measure_writing,
    "streaming": measure_streaming,
    "first_row": measure_first_row,
    "latency": measure_latency,
}

_PAGE: Final = RESULTS_FILE.parents[1] / "docs" / "performance.md"
_PICTURE: Final = _PAGE.with_suffix(".png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark. Return 0 if every side read the right messages, 1 if a measurement failed."""
    options = _parser().parse_args(arguments)
    if not 0 < options.scale <= 1 or options.rounds < 1 or options.warm_ups < 0:
        raise SystemExit("--scale must be above 0 and at most 1, --rounds 1 or more, --warm-ups 0 or more")
    if options.only and options.write and options.scale != 1:
        raise SystemExit("--write with --only replaces figures of a whole run; leave --scale away")
    if options.show_again:
        _show(Results.from_json(RESULTS_FILE.read_text()))
        return 0
    # Spark's Python workers are to be this very Python, not the first "python3" on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # The plan of each batch is no matter here.
    os.environ.setdefault(LOG_LEVEL_VARIABLE, "WARNING")
    ended: list[int] = []
    signal.signal(signal.SIGTERM, partial(_end, ended))
    run = RunSettings(options.scale, options.warm_ups, options.rounds)
    results = Results(
        machine(), versions(), datetime.now(UTC).isoformat(timespec="seconds"), run.scale, run.warm_ups, run.rounds
    )
    groups = options.only or list(GROUPS)
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder, Stage(Path(folder)) as stage:
        for name in groups:
            if ended:  # the group may have reported another error for it
                raise SystemExit("ended by SIGTERM")
            if not _measure(stage, results, run, name):
                failed.append(name)
    results.machine["load_after"] = load()
    text = tables(results)
    print(f"\n{text}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if groups == list(GROUPS):
        if options.write or run.scale == 1:
            _write(results)
    elif options.write:
        _write(Results.from_json(RESULTS_FILE.read_text()).replaced(results))
    return 0


def _end(ended: list[int], number: int, _: object) -> None:
    """Note that the run must end, and end it with its servers. Does not wait for the work of our processes."""
    ended.append(number)
    for child in multiprocessing.active_children():
        child.terminate()
    sys.exit("ended by SIGTERM")


def _measure(stage: Stage, results: Results, run: RunSettings, name: str) -> bool:
    """Measure a group; False if that failed. Then the error is printed, and the other groups go on."""
    stage.say(f"--- {name}, load {load():.1f}")
    started = time.perf_counter()
    try:
        GROUPS[name](stage, results, run)
    except Exception:
        traceback.print_exc()
        return False
    finally:
        results.group_seconds[name] = round(time.perf_counter() - started, 1)
    stage.say(f"{name} took {results.group_seconds[name]:.0f} s")
    return True


def _write(results: Results) -> None:
    RESULTS_FILE.write_text(results.to_json())
    print(f"written: {RESULTS_FILE}")
    _show(results)


def _show(results: Results) -> None:
    _PAGE.write_text(filled(_PAGE.read_text(), results))
    draw(results, _PICTURE)
    print(f"written: {_PAGE}, {_PICTURE}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="that count (%(default)s)")
    parser.add_argument("--warm-ups", type=int, default=1, metavar="N", help="rounds before them (%(default)s)")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="FRACTION", help="of all messages, for trying out (%(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(GROUPS), metavar="GROUP", help=f"some of: {', '.join(GROUPS)}"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write results.json and the page after a run on a scale too; after one of some groups, put in theirs",
    )
    parser.add_argument(
        "--show-again", action="store_true", help="measure nothing; write the page and the picture from results.json"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
