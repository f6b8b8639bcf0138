"""python -m tests.recorder: record anew what Apache's Java clients and Apache's servers say to each other.

It starts Apache's servers and Java's clients, lets the clients do what `scenario.py` has, and keeps each request with
its answer in a file: a line each, with what the bytes say before the bytes. It takes two minutes, of which one is
silence: a lease ends. `test_replay.py` asks the same questions to the embedded servers and compares the answers. Record
anew when `scenario.py` has changed, or Apache's version; then look at the file's changes before you commit it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.apache.java_gateway import JavaVM
from tests.apache.server import ApacheTubeMQ
from tests.conformance.cluster import ApacheCluster
from tests.recorder.recording import record
from tests.recorder.replay import KEPT
from tests.recorder.scenario import RECORDED, topics_of


def main() -> int:
    """Record, and say what was recorded."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recorder", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=KEPT, help="to write; by default the one that the tests replay")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="recorder-") as folder:
        servers = ApacheTubeMQ(Path(folder) / "servers", heap_mb=256)
        servers.start(topics_of(RECORDED))
        try:
            with JavaVM(Path(folder) / "java", heap_mb=128) as java:
                recording = record(ApacheCluster(servers), java, RECORDED)
        finally:
            servers.stop(clean=False)
    recording.save(given.file)
    for step, count in Counter(one.step for one in recording.exchanges).items():
        print(f"{step}: {count} exchanges")
    size = given.file.stat().st_size
    print(f"{given.file}: {size} bytes after {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
