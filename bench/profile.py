"""Where the time of a batch read goes: CPU seconds of broker, Python workers and Spark's JVM, also with Spark's Kafka
source, in turns; stages of decoding, and a flame graph of one task.

CPU seconds depend less on other load than rows a second do. They count all threads of a process, and the kernel's work
for it (sockets), which is also shown alone.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil

from bench.decode import make_frames, stage_seconds
from bench.spark_reads import kafka_options, timed_read, tube_options
from bench.stage import Stage
from bench.workloads import LAYOUTS, WORKLOADS, Workload, scaled

__all__ = ["main"]

_WARM_UPS: Final = 3
_KAFKAS: Final = "Spark's Kafka source"
_OF_SPARK: Final = ("Python workers", "Spark's JVM")
_FLAME_SECONDS: Final = 240.0
_SAMPLES_A_SECOND: Final = 200


class Cpu(NamedTuple):
    """CPU seconds of some processes."""

    user: float
    system: float

    @classmethod
    def of(cls, processes: Sequence[psutil.Process]) -> Cpu:
        """CPU seconds so far, without processes that have ended."""
        user = system = 0.0
        for process in processes:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            user, system = user + times.user, system + times.system
        return cls(user, system)

    def since(self, earlier: Cpu, rows: int) -> Cpu:
        """For a million rows."""
        return Cpu((self.user - earlier.user) * 1e6 / rows, (self.system - earlier.system) * 1e6 / rows)


def parties() -> dict[str, list[psutil.Process]]:
    """Our descendants by what they do in a read."""
    found: dict[str, list[psutil.Process]] = {"broker": [], "Python workers": [], "Spark's JVM": [], "drainers": []}
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if "broker.ini" in command:
            found["broker"].append(process)
        elif "pyspark.daemon" in command or "pyspark/daemon" in command:
            found["Python workers"].append(process)
        elif "SparkSubmit" in command:
            found["Spark's JVM"].append(process)
        elif "multiprocessing" in command:
            found["drainers"].append(process)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write the flame graph if the user wants one."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="that count (%(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, metavar="FRACTION", help="of all messages (%(default)s)")
    parser.add_argument(
        "--only", nargs="+", choices=[one.key for one in WORKLOADS], default=["small", "medium", "large"]
    )
    parser.add_argument("--flame", type=Path, metavar="FILE", help="an SVG of where a task's time goes, by py-spy")
    options = parser.parse_args(arguments)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder, Stage(Path(folder)) as stage:
        for workload in WORKLOADS:
            if workload.key not in options.only:
                continue
            work = scaled(workload, options.scale)
            for layout, topic in zip(LAYOUTS, stage.tube_topics(work, LAYOUTS), strict=True):
                sides = {
                    "our source": _reader(stage, topic, work.messages),
                    "our source, the column value alone": _reader(stage, topic, work.messages, columns="value"),
                    _KAFKAS: _kafka_reader(stage, work),
                    "our messages, thrown away by two processes": _drain(stage, topic, work.messages, work.body_bytes),
                }
                print(
                    f"\n{workload.title}, {layout.title}: CPU seconds for a million rows, median (of it the kernel's)"
                )
                _print(_in_turns(sides, work.messages, options.rounds))
        _print_stages()
        if options.flame:
            [topic] = stage.tube_topics(scaled(WORKLOADS[0], options.scale), LAYOUTS[:1])
            _draw_flame(stage, topic, options.flame)
    return 0


def _reader(stage: Stage, topic: str, messages: int, **more: str) -> Callable[[], object]:
    options = {**tube_options(stage.settings, topic), **more}
    return lambda: timed_read(stage.spark, "tubeclient", options, messages)


def _kafka_reader(stage: Stage, work: Workload) -> Callable[[], object]:
    options = kafka_options(stage.kafka.bootstrap, stage.kafka_topic(work), impatient=True)
    return lambda: timed_read(stage.spark, "kafka", options, work.messages)


def _drain(stage: Stage, topic: str, messages: int, body_bytes: int) -> Callable[[], object]:
    return lambda: stage.ceiling.drain(topic, messages, body_bytes)


def _in_turns(sides: Mapping[str, Callable[[], object]], rows: int, rounds: int) -> dict[str, dict[str, list[Cpu]]]:
    """What each party used in each round, by sides."""
    found: dict[str, dict[str, list[Cpu]]] = {side: {} for side in sides}
    for number in range(_WARM_UPS + rounds):
        for side, read in sides.items():
            before = {name: (processes, Cpu.of(processes)) for name, processes in parties().items()}
            read()
            for name, (processes, earlier) in before.items():
                if number >= _WARM_UPS:
                    found[side].setdefault(name, []).append(Cpu.of(processes).since(earlier, rows))
    return found


def _print(found: Mapping[str, Mapping[str, Sequence[Cpu]]]) -> None:
    of_kafka = _executors(found[_KAFKAS])
    for side, by_party in found.items():
        ratios = [ours / kafkas for ours, kafkas in zip(_executors(by_party), of_kafka, strict=True)]
        print(f"{side}; executors {median(ratios):.2f} of Kafka's" if any(ratios) else side)
        for name, values in by_party.items():
            total, kernel = median(map(sum, values)), median(one.system for one in values)
            if total > 0:
                print(f"  {name:<16}{total:8.2f} ({kernel:.2f})", flush=True)


def _executors(by_party: Mapping[str, Sequence[Cpu]]) -> list[float]:
    """CPU seconds of Spark in each round, in Python and in the JVM."""
    return [sum(map(sum, of_round)) for of_round in zip(*(by_party[name] for name in _OF_SPARK), strict=True)]


def _print_stages() -> None:
    print("\nDecoding on one core, 100 bytes, nanoseconds a message")
    for title, attributes in (("no attributes", False), ("with attributes, asked for", True)):
        packs = make_frames(200, 2_000, 100, with_attributes=attributes)
        rounds = [stage_seconds(packs, include_attributes=attributes) for _ in range(6)][1:]
        count = len(packs.frames) * packs.messages
        shown = ", ".join(f"{name} {median(one[name] for one in rounds) / count * 1e9:.0f}" for name in rounds[0])
        print(f"  {title}: {shown}", flush=True)


def _draw_flame(stage: Stage, topic: str, file: Path) -> None:
    """Only moments when the task has Python's lock: a thread that waits in the kernel does no work."""
    command = [
        str(Path(sys.executable).with_name("py-spy")),
        "record",
        "--native",
        "--gil",
        "-r",
        str(_SAMPLES_A_SECOND),
    ]
    command += ["-o", str(file), "--", sys.executable, "-m", "bench.one_task", "--topic", topic, "--rounds", "8"]
    command += ["--master", stage.tubemq.master_address, "--web-port", str(stage.tubemq.master_web_port)]
    stage.say("recording the flame graph")
    subprocess.run(command, check=True, timeout=_FLAME_SECONDS)
    # py-spy shows the command as it was, with the paths of this machine.
    file.write_text(re.sub(r'(<text id="title"[^>]*>)[^<]*', r"\1One task of a batch read", file.read_text()))
    print(f"written: {file}")


if __name__ == "__main__":
    sys.exit(main())
