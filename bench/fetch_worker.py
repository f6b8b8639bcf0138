"""One reading process of `bench.fetch_cost`: reads a topic as one task of Spark's, and throws the batches away.

Its file is run by itself, so that it can read with the code of another tree. It says "ready" after a warm-up, reads at
each line it is given, and answers with what that took, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spark_source.source import TubeSource
from tubeclient.metrics import totals

__all__ = ["main"]

_TICKS = os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str]) -> int:
    """Read a topic until there is no further line. The arguments are the master, its web port and the topic."""
    master, web_port, topic = arguments
    source = TubeSource(
        {
            "masterservers": master,
            "masterwebport": web_port,
            "consumergroup": "fetch_cost",
            "subscribe": topic,
            "sourcecount": "1",
        }
    )
    reader = source.reader(source.schema())
    [task] = reader.partitions()

    def read() -> int:
        batches: Iterator[Any] = reader.read(task)
        return sum(batch.num_rows for batch in batches)

    read()
    print("ready", flush=True)
    for line in sys.stdin:
        before = _so_far()
        rows = sum(read() for _ in range(int(line)))
        used = {name: value - before.get(name, 0) for name, value in _so_far().items()}
        print(json.dumps({"rows": rows, **used}), flush=True)
    return 0


def _so_far() -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    found: dict[str, float] = {
        "fetches": _fetches(),
        "user": used.ru_utime,
        "kernel": used.ru_stime,
        "page faults": used.ru_minflt,
        "waits": used.ru_nvcsw,
        "preempted": used.ru_nivcsw,
        "receiving": 0.0,
    }
    for thread in threading.enumerate():
        if thread.name.startswith("tubeclient-read-") and thread.native_id is not None:
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
            found["receiving"] += (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def _fetches() -> float:
    """Answers to fetches so far, of all kinds."""
    known: dict[Any, tuple[float, ...]] = totals()
    return sum(values[0] for (metric, _), values in known.items() if metric.name == "tubeclient_fetches_total")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
