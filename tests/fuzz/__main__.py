"""python -m tests.fuzz: fuzz all targets, or some, each in a process of its own, guided by coverage.

Needs atheris (pip install atheris), which is not among the development tools: it is large, and not for every Python.
A find ends its target's run. It is in the folder of inputs then, with the command that repeats it. Add it to
`tests/fuzz/finds/TARGET/` when it is mended: `test_fuzz.py` runs what is there.
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_OWN_CODE = ["tubeclient", "embedded_tubemq", "spark_source", "tubeclient_cli"]
_HANG_SECONDS = 20
_MEMORY_MB = 2048
_LONGEST_BYTES = 20_000
_FIGURES = re.compile(r"#(\d+)\s+\S+\s+cov: (\d+)")


def main() -> int:
    """Exit code 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target; default 60")
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--inputs", type=Path, help="a folder that keeps inputs between runs; default: a temporary one")
    parser.add_argument("--here", action="store_true", help="in this process, one target")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        inputs: Path = given.inputs or Path(temporary)
        if given.here:
            _fuzz(given.target[0], given.seconds, inputs)
            return 0
        from tests.fuzz.targets import TARGETS

        found = [name for name in given.target or TARGETS if not _in_own_process(name, given.seconds, inputs)]
    if found:
        print(f"finds in: {', '.join(found)}")
    return 1 if found else 0


def _in_own_process(name: str, seconds: int, inputs: Path) -> bool:
    """Print the target's figures; whether nothing was found."""
    command = [sys.executable, "-m", "tests.fuzz", "--here", "--target", name, "--seconds", str(seconds)]
    done = subprocess.run(
        [*command, "--inputs", str(inputs)], capture_output=True, text=True, errors="replace", timeout=2 * seconds + 300
    )
    figures = _FIGURES.findall(done.stderr)
    runs, coverage = figures[-1] if figures else ("0", "0")
    print(f"{name}: {runs} inputs, {coverage} edges, {'nothing found' if not done.returncode else 'FOUND'}", flush=True)
    if done.returncode:
        print(done.stderr[-6000:], flush=True)
    return not done.returncode


def _fuzz(name: str, seconds: int, inputs: Path) -> None:
    """Does not return: atheris ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=_OWN_CODE):
        from tests.fuzz.targets import TARGETS, corpus
    folder = inputs / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus(name)):
        (folder / f"seed-{number}").write_bytes(data)
    with TARGETS[name].opened() as run:
        arguments = [
            f"-max_total_time={seconds}",
            f"-timeout={_HANG_SECONDS}",
            f"-rss_limit_mb={_MEMORY_MB}",
            f"-max_len={_LONGEST_BYTES}",
            f"-artifact_prefix={folder}/find-",
        ]
        atheris.Setup([sys.argv[0], *arguments, str(folder)], run)
        atheris.Fuzz()


if __name__ == "__main__":
    raise SystemExit(main())
