"""Where the time of a task goes: the stages of decoding, and a flame graph of one task.

What a read costs each process is measured by `python -m bench --only executor_cpu`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.decode import make_frames, stage_seconds
from bench.stage import Stage
from bench.workloads import LAYOUTS, WORKLOADS, scaled

__all__ = ["main"]

_FLAME_SECONDS: Final = 240.0
_SAMPLES_A_SECOND: Final = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the stages, and write the flame graph if the user wants one."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, metavar="FRACTION", help="of all messages (%(default)s)")
    parser.add_argument("--flame", type=Path, metavar="FILE", help="an SVG of where a task's time goes, by py-spy")
    options = parser.parse_args(arguments)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    _print_stages()
    if options.flame:
        with tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder, Stage(Path(folder)) as stage:
            [topic] = stage.tube_topics(scaled(WORKLOADS[0], options.scale), LAYOUTS[:1])
            _draw_flame(stage, topic, options.flame)
    return 0


def _print_stages() -> None:
    print("Decoding on one core, 100 bytes, nanoseconds a message")
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
