"""What a fetch costs a reading process: CPU time, system calls, page faults, waits; and how often a byte is copied.

The broker is `embedded_tubemq`, in a process of its own. One process reads each topic as a task of Spark's does, and
throws the batches away. Several trees of the project take turns, round by round, so that other work on the machine
disturbs them alike. The figures are CPU times and counts, never times by the clock. System calls are counted by strace
in rounds of their own, whose times do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from bench.embedded_loaded import Backlog, embedded_backlogs
from embedded_tubemq import TopicConfig
from tubeclient import ClientSettings

__all__ = ["Worker", "byte_copies", "main"]

_HERE: Final = Path(__file__).resolve()
_STORES: Final = 8
_SIZES: Final = {100: 500_000, 1_024: 150_000, 65_536: 4_000}
"""Messages to read, by their length in bytes."""
_KINDS: Final = ("recvfrom", "sendto", "poll", "futex", "mmap", "munmap", "madvise", "brk")
_ATTACH_SECONDS: Final = 15.0
_END_SECONDS: Final = 30.0


def _command(file: str, *arguments: str) -> list[str]:
    """Run a file beside this one with the modules of the tree in `_paths`."""
    return [sys.executable, "-P", str(_HERE.with_name(file)), *arguments]


def _paths(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree)}


def byte_copies(tree: Path, size: int) -> dict[str, float]:
    """New memory of each stage of reading for each byte of messages of this size, with the code of a tree."""
    command = _command("byte_copies.py", str(size))
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=_paths(tree), cwd=tree, text=True).stdout
    found: dict[str, float] = json.loads(printed)
    return found


class Worker:
    """A reading process with the code of a tree."""

    def __init__(self, tree: Path, settings: ClientSettings, topic: str) -> None:
        command = _command("fetch_worker.py", settings.master_servers[0], str(settings.master_web_port), topic)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_paths(tree), cwd=tree
        )
        self._expect("ready")

    def _expect(self, start: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(start):
            raise RuntimeError(f"a reading process ended, or said {line!r}; its error is above")
        return line

    def read(self, times: int) -> dict[str, float]:
        """What reading the topic so many times took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{times}\n")
        self._process.stdin.flush()
        found: dict[str, float] = json.loads(self._expect("{"))
        return found

    def calls(self, times: int, folder: Path) -> dict[str, float]:
        """System calls of such a reading, by their names, and its fetches."""
        output = folder / "strace"
        output.unlink(missing_ok=True)
        command = ["strace", "-f", "-c", "-o", str(output), "-p", str(self._process.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            try:
                self._await_tracer()
                found = self.read(times)
            finally:
                tracer.send_signal(signal.SIGINT)
                tracer.communicate(timeout=_END_SECONDS)
        counted = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", output.read_text(), re.MULTILINE)
        calls = {name: float(count) for count, name in counted if name != "total"}
        return {**calls, "fetches": found["fetches"], "rows": found["rows"]}

    def _await_tracer(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status")
        deadline = time.monotonic() + _ATTACH_SECONDS
        while "TracerPid:\t0\n" in status.read_text():
            if time.monotonic() > deadline:
                raise RuntimeError("strace does not attach to the reading process")
            time.sleep(0.05)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.communicate(timeout=_END_SECONDS)  # the end of its input ends it


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.fetch_cost", description=__doc__)
    parser.add_argument("--beside", type=Path, metavar="TREE", help="another tree, which is read with in turns")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--bytes", type=int, choices=_SIZES, nargs="*", default=list(_SIZES), help="sizes of messages")
    options = parser.parse_args(arguments)
    trees = {"here": _HERE.parents[1]}
    if options.beside is not None:
        trees = {"beside": options.beside.resolve(), **trees}
    print("New memory of each stage for each byte of the messages")
    for size in options.bytes:
        for name, tree in trees.items():
            shown = ", ".join(f"{stage} {copies:.2f}" for stage, copies in byte_copies(tree, size).items())
            print(f"{name}, {size} bytes: {shown}", flush=True)
    topics = {size: TopicConfig(f"bytes_{size}", stores=_STORES, partitions=1) for size in options.bytes}
    backlogs = [Backlog(topic, _SIZES[size], size) for size, topic in topics.items()]
    with tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder, embedded_backlogs(backlogs) as settings:
        for size, topic in topics.items():
            _measure(size, topic.name, settings, trees, options.rounds, Path(folder))
    return 0


def _measure(
    size: int, topic: str, settings: ClientSettings, trees: Mapping[str, Path], rounds: int, folder: Path
) -> None:
    with ExitStack() as stack:
        workers = {name: Worker(tree, settings, topic) for name, tree in trees.items()}
        for worker in workers.values():
            stack.callback(worker.close)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
        for number in range(rounds):
            for name in list(workers)[:: 1 if number % 2 else -1]:
                found[name].append(workers[name].read(2))
        print(f"\nMessages of {size} bytes, medians of {rounds} rounds")
        for name, worker in workers.items():
            _print_used(name, found[name])
            _print_calls(worker.calls(1, folder))


def _print_used(name: str, rounds: Sequence[Mapping[str, float]]) -> None:
    def of(unit: str, scale: float, *parts: str) -> float:
        return median(sum(one[part] for part in parts) / one[unit] * scale for one in rounds)

    print(
        f"{name}: {of('rows', 1e6, 'user', 'kernel'):.3f} CPU s for a million rows"
        f" ({min(sum(map(one.__getitem__, ('user', 'kernel'))) / one['rows'] * 1e6 for one in rounds):.3f} at least),"
        f" of which {of('rows', 1e6, 'kernel'):.3f} the kernel's and {of('rows', 1e6, 'receiving'):.3f} of the thread"
        " that receives"
    )
    print(
        f"  a fetch: {of('fetches', 1, 'rows'):.0f} rows, {of('fetches', 1e6, 'user', 'kernel'):.0f} us of CPU,"
        f" {of('fetches', 1, 'page faults'):.1f} page faults, {of('fetches', 1, 'waits'):.1f} waits,"
        f" {of('fetches', 1, 'preempted'):.1f} times preempted"
    )


def _print_calls(calls: Mapping[str, float]) -> None:
    fetches = calls["fetches"]
    known = [f"{name} {calls.get(name, 0) / fetches:.2f}" for name in _KINDS]
    others = sum(count for name, count in calls.items() if name not in (*_KINDS, "fetches", "rows")) / fetches
    print(f"  calls of a fetch: {', '.join(known)}, others {others:.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
