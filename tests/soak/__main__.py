"""`python -m tests.soak --minutes 60`: an even load of InLong packs through `tubeclient ingest`; prints how much each
process grows, and whether each record came once. Ends with 1 if one did not.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from tests.soak.run import soak


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--per-second", type=float, default=5000, help="messages; each is a pack of two records")
    parser.add_argument("--folder", type=Path, default=None, help="for logs and tables; kept. Default: one that is not")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whoever ends this ends all that it has started

    def say(text: str) -> None:
        print(f"{datetime.now():%H:%M:%S}  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = soak(folder, given.minutes, given.per_second, say)
    for line in report.lines():
        print(line)
    return 0 if report.whole else 1


if __name__ == "__main__":
    sys.exit(main())
