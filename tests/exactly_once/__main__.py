"""`python -m tests.exactly_once --server apache --seconds 600 --seed 1`: one long run; prints its figures at the
end."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.exactly_once.faults import FAULTS, LONG_FAULTS
from tests.exactly_once.run import SERVERS, run
from tubeclient_ingest.settings.ingest_settings import TABLE_FORMATS, WRITERS


def main() -> int:
    """Run, print, and return 0 if each message came once."""
    names = {fault.__name__: fault for fault in FAULTS}
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once", description=__doc__)
    parser.add_argument("--server", choices=SERVERS, default="apache")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--fault", choices=names, action="append", default=None, help="only these; default: all")
    parser.add_argument("--per-second", type=float, default=200, help="numbers that the producers write")
    parser.add_argument("--latest", action="store_true", help="begin at the latest messages, not at the earliest")
    parser.add_argument("--writer", choices=WRITERS, default="auto", help="the job's")
    parser.add_argument("--table-format", choices=TABLE_FORMATS, default="delta", help="the job's")
    parser.add_argument("--folder", type=Path, default=None, help="for logs and tables; kept. Default: one that is not")
    given = parser.parse_args()
    faults = tuple(names[name] for name in given.fault or names)
    # Whoever ends this ends all that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as temporary:
        folder = given.folder or Path(temporary)
        report = run(
            given.server,
            folder,
            given.seed,
            seconds=given.seconds,
            per_second=given.per_second,
            first=tuple(fault for fault in LONG_FAULTS if fault in faults),
            faults=faults,
            latest=given.latest,
            writer=given.writer,
            table_format=given.table_format,
        )
    return 0 if report.whole else 1


if __name__ == "__main__":
    sys.exit(main())
