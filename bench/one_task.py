"""One task of a batch read without Spark, for a profiler: half of a topic, as the Arrow stream that Spark would get.

Prints rows, seconds, and CPU seconds for a million rows, for each round.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from spark_source.source import TubeSource

__all__ = ["main"]

_NODES = 2
_SINK = "import sys\nwhile sys.stdin.buffer.read1(1 << 20): pass"


def main(arguments: Sequence[str] | None = None) -> int:
    """Read `--rounds` times."""
    parser = argparse.ArgumentParser(prog="python -m bench.one_task", description=__doc__)
    parser.add_argument("--master", required=True, metavar="HOST:PORT")
    parser.add_argument("--web-port", required=True, metavar="PORT", help="the master's")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args(arguments)
    source = TubeSource(
        {
            "masterservers": options.master,
            "masterwebport": options.web_port,
            "consumergroup": "one_task",
            "subscribe": options.topic,
            "sourcecount": str(_NODES),
        }
    )
    reader = source.reader(source.schema())
    task = reader.partitions()[0]
    for _ in range(options.rounds):
        started, cpu = time.perf_counter(), time.process_time()
        rows = _send(reader.read(task))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        print(f"{rows:,} rows in {seconds:.2f} s, {cpu / rows * 1e6:.2f} CPU s for a million", flush=True)
    return 0


def _send(batches: Iterator[pa.RecordBatch]) -> int:
    """Send the rows to a process that throws them away; return their number."""
    rows = 0
    with subprocess.Popen([sys.executable, "-c", _SINK], stdin=subprocess.PIPE) as sink:
        assert sink.stdin is not None
        writer = None
        for batch in batches:
            writer = writer or pa.ipc.new_stream(sink.stdin, batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


if __name__ == "__main__":
    sys.exit(main())
