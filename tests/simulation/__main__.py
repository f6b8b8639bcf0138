"""Runs seeds: `python -m tests.simulation --seeds 300`. Ends with 1 if one of them breaks a guarantee."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter

ORDER = "PYTHONHASHSEED"
"""Sets of texts have the same order in each process only if it is set."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first one")
    parser.add_argument("--these", type=int, nargs="+", metavar="SEED", help="these seeds instead")
    parser.add_argument("--limit-seconds", type=float, default=None, help="begin no seed after so long")
    parser.add_argument("--story", action="store_true", help="print what happened in each seed")
    parser.add_argument("--log", action="store_true", help="print the product's log")
    given = parser.parse_args()
    if os.environ.get(ORDER) != "0":
        os.environ[ORDER] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    from tests.simulation.ingest import install
    from tests.simulation.scenario import simulate

    logging.basicConfig(level=logging.INFO if given.log else logging.CRITICAL, format="%(name)s: %(message)s")
    logging.getLogger().setLevel(logging.INFO if given.log else logging.WARNING)
    if not given.log:
        logging.getLogger().handlers.clear()
        logging.lastResort = None
    install()
    began, told, failed = time.monotonic(), time.monotonic(), []
    before = time.process_time()
    ends: Counter[str] = Counter()
    messages = batches = lives = run = 0
    for seed in given.these or range(given.start, given.start + given.seeds):
        if given.limit_seconds is not None and time.monotonic() - began > given.limit_seconds:
            break
        outcome = simulate(seed)
        run += 1
        messages, batches, lives = messages + outcome.messages, batches + outcome.commits, lives + outcome.lives
        ends.update(outcome.ends)
        if given.story:
            print("\n".join(outcome.story))
        if outcome.wrongs:
            failed.append(seed)
            first, *_, last = [*outcome.wrongs[0].strip().splitlines()] * 2
            print(f"seed {seed}: {first}{'' if first == last else f' ... {last}'}", flush=True)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{run} seeds, {run / (told - began):.1f} seeds/s, failed: {failed or 'none'}", flush=True)
    seconds, of_core = time.monotonic() - began, time.process_time() - before
    print(f"{run} seeds in {seconds:.0f} s, {run / of_core:.1f} for each second of a core")
    print(f"{messages:,} messages, {batches:,} commits of targets, {lives:,} lives of drivers")
    print(f"which ended: {dict(ends.most_common())}")
    print(f"failed: {', '.join(map(str, failed)) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
