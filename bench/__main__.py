"""All measurements side by side on this machine, in one run: `make bench`.

The run starts Apache TubeMQ 2.4.0, Apache Kafka 3.9.1, Java's client and one Spark session (local[2]), and fills the
topics. In each group all sides warm up until they are flat: the median of a side's last three rounds is within 5 % of
that of the three before. Then three rounds of all count. Compare only figures of one run, because servers, readers and
everything else on the machine share its cores. A whole run writes its table into docs/performance.md.

The exit code is 0 if every side read and wrote the right messages, at any speed; 1 if a measurement failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.ingest import measure_ingest
from bench.many_tables import measure_database, measure_inlong_group
from bench.measuring import Results, put_between
from bench.offsets_table import measure_offsets_table
from bench.reading import measure_reading
from bench.stage import Stage
from bench.streaming import measure_first_row, measure_latency
from bench.writing import measure_writing
from spark_source.stream.planner_process import LOG_LEVEL_VARIABLE

__all__ = ["GROUPS", "main"]

GROUPS: Final[Mapping[str, Callable[[Stage, Results], None]]] = {
    "reading": measure_reading,
    "first_row": measure_first_row,
    "latency": measure_latency,
    "ingest": measure_ingest,
    "inlong_group": measure_inlong_group,
    "database": measure_database,
    "writing": measure_writing,
    "offsets_table": measure_offsets_table,
}

_ROOT: Final = Path(__file__).resolve().parents[1]
_PAGE: Final = _ROOT / "docs" / "performance.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = _parser().parse_args(arguments)
    if not 0 < options.scale <= 1 or options.warm_ups < 0:
        raise SystemExit("--scale must be above 0 and at most 1, --warm-ups 0 or more")
    # Spark's Python workers are to be this very Python, and find the floor's module.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # The plan of each batch is no matter here.
    os.environ.setdefault(LOG_LEVEL_VARIABLE, "WARNING")
    failed: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="tubeclient-bench-", ignore_cleanup_errors=True) as folder,
        Stage(Path(folder), options.scale) as stage,
    ):
        results = Results(options.warm_ups, options.scale, stage.say)
        for name in options.only or GROUPS:
            stage.say(f"--- {name}, load {os.getloadavg()[0]:.1f}")
            try:
                GROUPS[name](stage, results)
            except Exception:
                traceback.print_exc()
                failed.append(name)
    text = results.markdown()
    print(f"\n{text}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if not options.only and options.scale == 1:
        _PAGE.write_text(put_between(_PAGE.read_text(), text))
        print(f"written: {_PAGE}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--warm-ups", type=int, default=20, metavar="N", help="at most, of a side (%(default)s)")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="FRACTION", help="of all messages, for trying out (%(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(GROUPS), metavar="GROUP", help=f"some of: {', '.join(GROUPS)}"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
